/** An icicle on a canvas: point at frames or use the arrow keys, press to zoom, Escape to go back. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Direction, type Frame, frameAt, layout, type Node, neighbour } from "../flame/layout";
import { fitting, plain } from "../format/cut";
import { colourOf } from "../format/parts";
import { useDark } from "./plot";

const ROW = 22;
const WAYS: Readonly<Record<string, Direction>> = {
  ArrowUp: "up",
  ArrowDown: "down",
  ArrowLeft: "left",
  ArrowRight: "right",
};

interface Props {
  readonly nodes: readonly Node[];
  readonly label: string;
  /** Describes a frame, for those who point at it. */
  readonly words: (node: Node) => string;
  /** The frames that do not match the search; null without a search. */
  readonly pale: ((node: Node) => boolean) | null;
  readonly focus: string | null;
  readonly onFocus: (id: string | null) => void;
}

export function Flame({ nodes, label, words, pale, focus, onFocus }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState<Frame | undefined>();
  const dark = useDark();
  const frames = useMemo(() => layout(nodes, focus), [nodes, focus]);
  const rows = 1 + Math.max(0, ...frames.map((one) => one.depth));
  const current = frames.find((one) => one.node.id === at?.node.id);

  useEffect(() => {
    const box = canvas.current?.parentElement;
    if (!box) return undefined;
    const follow = new ResizeObserver(() => setWidth(box.clientWidth));
    follow.observe(box);
    return () => follow.disconnect();
  }, []);

  useEffect(() => {
    if (canvas.current !== null && width > 0) draw(canvas.current, frames, width, rows * ROW, current, pale);
  }, [frames, width, rows, current, dark, pale]);

  useEffect(() => {
    const box = canvas.current?.parentElement;
    if (!box || current === undefined) return;
    const y = current.depth * ROW;
    box.scrollTop = Math.min(Math.max(box.scrollTop, y + ROW - box.clientHeight), y);
  }, [current]);

  const pointed = (event: MouseEvent) =>
    frameAt(frames, event.offsetX / Math.max(width, 1), Math.floor(event.offsetY / ROW));
  const choose = (frame: Frame | undefined) => {
    if (frame !== undefined) onFocus(frame.node.id === focus ? frame.node.parent : frame.node.id);
  };
  const walk = (event: KeyboardEvent) => {
    const way = WAYS[event.key];
    if (way !== undefined) setAt(neighbour(frames, current, way));
    else if (event.key === "Enter") choose(current);
    else if (event.key === "Escape") onFocus(null);
    else return;
    event.preventDefault();
  };

  return (
    <div class="flame">
      <div class="flame-place" style={{ height: `${rows * ROW}px` }}>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          aria-label={`${label}. Arrow keys walk over it, Enter zooms, Escape goes back. The table below has its numbers.`}
          onMouseMove={(event) => setAt(pointed(event))}
          onMouseLeave={() => setAt(undefined)}
          onClick={(event) => choose(pointed(event))}
          onKeyDown={walk}
        />
      </div>
      <p class="flame-words small" aria-live="polite">
        {current === undefined
          ? "Point at a frame, or walk with the arrow keys; press to zoom."
          : plain(words(current.node))}
        {focus !== null && (
          <>
            {" "}
            <button type="button" onClick={() => onFocus(null)}>
              Show all
            </button>
          </>
        )}
      </p>
    </div>
  );
}

function draw(
  canvas: HTMLCanvasElement,
  frames: readonly Frame[],
  width: number,
  height: number,
  current: Frame | undefined,
  pale: ((node: Node) => boolean) | null,
) {
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (context === null) return;
  const [plain, darker, ink, ring] = ["--frame", "--frame-part", "--ink", "--accent"].map(colourOf);
  context.scale(scale, scale);
  context.font = `12px ${getComputedStyle(canvas).fontFamily}`;
  context.textBaseline = "middle";
  for (const frame of frames) {
    const x = frame.left * width;
    const wide = Math.max(frame.width * width - 1, 0.5);
    const y = frame.depth * ROW;
    context.globalAlpha = pale?.(frame.node) ? 0.35 : 1;
    context.fillStyle = plain ?? "";
    context.fillRect(x, y, wide, ROW - 1);
    if (frame.node.part !== null) {
      context.fillStyle = darker ?? "";
      context.fillRect(x, y + ROW - 5, wide * frame.node.part, 4);
    }
    if (frame.node.id === current?.node.id) {
      context.strokeStyle = ring ?? "";
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, wide - 2, ROW - 3);
    }
    if (wide > 28) {
      context.fillStyle = ink ?? "";
      context.fillText(fitting(context, frame.node.name, wide - 8), x + 4, y + ROW / 2 - 1);
    }
  }
}
