/** A uPlot chart that fits its place, follows the system's theme, and can be read with the arrow keys. */
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { colourOf } from "../format/parts";
import "uplot/dist/uPlot.min.css";

interface Props {
  /** Recreated when the theme changes, because it contains colours. */
  readonly options: () => Omit<uPlot.Options, "width" | "height">;
  readonly data: uPlot.AlignedData;
  readonly height: number;
  /** Describes the chart for people who do not see it; the table beside it has the numbers. */
  readonly label: string;
  /** A press, or Enter at the cursor, selects a value of x. */
  readonly onChoose?: ((x: number) => void) | undefined;
  /** A drag, or Shift with the arrow keys and Enter, selects an interval of x. */
  readonly onStretch?: ((from: number, to: number) => void) | undefined;
  /** Escape clears both selections. */
  readonly onReset?: (() => void) | undefined;
}

/** A drag of less than this width in pixels is a press. */
const LEAST_DRAG = 5;
/** The part of all points that an arrow key moves with Ctrl. */
const LEAP = 0.1;
/** Room on the right for half of the last number on the axis. */
const RIGHT = 30;

export function Plot({ options, data, height, label, onChoose, onStretch, onReset }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const anchor = useRef<number | null>(null);
  // Of several points at one x, the plot has one at the cursor; this remembers which.
  const index = useRef<number | null>(null);
  const handlers = useRef({ onChoose, onStretch, onReset });
  handlers.current = { onChoose, onStretch, onReset };
  const dark = useDark();
  useEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    const made = options();
    const drawn = new uPlot(
      {
        padding: [null, RIGHT, null, null],
        cursor: { drag: { x: handlers.current.onStretch !== undefined, y: false, setScale: false } },
        ...made,
        width: box.clientWidth,
        height,
      },
      data,
      box,
    );
    drawn.over.addEventListener("mouseup", () => pressed(drawn));
    drawn.over.addEventListener("mousemove", () => {
      index.current = null;
    });
    plot.current = drawn;
    const follow = new ResizeObserver(() => drawn.setSize({ width: box.clientWidth, height }));
    follow.observe(box);
    return () => {
      follow.disconnect();
      drawn.destroy();
      plot.current = null;
    };
  }, [options, data, height, dark]);

  const pressed = (drawn: uPlot) => {
    const { left, width } = drawn.select;
    if (width >= LEAST_DRAG) stretched(drawn, left, width);
    else if (drawn.cursor.left !== undefined && drawn.cursor.left >= 0)
      handlers.current.onChoose?.(drawn.posToVal(drawn.cursor.left, "x"));
  };
  const stretched = (drawn: uPlot, left: number, width: number) =>
    handlers.current.onStretch?.(drawn.posToVal(left, "x"), drawn.posToVal(left + width, "x"));

  const walk = (event: KeyboardEvent) => {
    const drawn = plot.current;
    const times = data[0];
    if (drawn === null || times.length === 0) return;
    const at = index.current ?? drawn.cursor.idx ?? null;
    const go = (wanted: number) => {
      const to = Math.min(times.length - 1, Math.max(0, wanted));
      index.current = to;
      const left = drawn.valToPos(times[to] ?? 0, "x");
      drawn.setCursor({ left, top: 0 });
      drawn.setLegend({ idx: to });
      if (event.shiftKey && handlers.current.onStretch !== undefined) {
        anchor.current ??= drawn.valToPos(times[at ?? to] ?? 0, "x");
        const from = Math.min(anchor.current, left);
        const width = Math.abs(left - anchor.current);
        drawn.setSelect({ left: from, width, top: 0, height: drawn.over.clientHeight }, false);
      } else {
        anchor.current = null;
        drawn.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      }
    };
    const far = event.ctrlKey ? Math.max(1, Math.round(LEAP * times.length)) : 1;
    if (event.key === "ArrowRight") go(at === null ? 0 : at + far);
    else if (event.key === "ArrowLeft") go(at === null ? times.length - 1 : at - far);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(times.length - 1);
    else if (event.key === "Enter") pressed(drawn);
    else if (event.key === "Escape") {
      index.current = null;
      drawn.setCursor({ left: -10, top: -10 });
      handlers.current.onReset?.();
    } else return;
    event.preventDefault();
  };

  return (
    <div
      class="uplot-place"
      ref={place}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys read it
      tabIndex={0}
      role="img"
      aria-label={`${label}. Arrow keys walk along it.`}
      onKeyDown={walk}
    />
  );
}

/** Whether the system asks for a dark page, updated when that changes. */
export function useDark(): boolean {
  const [asked] = useState(() => matchMedia("(prefers-color-scheme: dark)"));
  const [dark, setDark] = useState(asked.matches);
  useEffect(() => {
    const follow = () => setDark(asked.matches);
    asked.addEventListener("change", follow);
    return () => asked.removeEventListener("change", follow);
  }, [asked]);
  return dark;
}

/** Colours of several lines in a plot, in order. */
export const LINE_COLOURS = [
  "--kernel",
  "--communication",
  "--dataloader",
  "--runtime",
  "--memcpy",
  "--cpu-exec",
];

function plainAxis(text: (value: number) => string): uPlot.Axis {
  return {
    stroke: colourOf("--muted"),
    grid: { stroke: colourOf("--line"), width: 1 },
    ticks: { stroke: colourOf("--line"), width: 1, size: 4 },
    values: (_, splits) => splits.map(text),
  };
}

/** The axes of a plot, given how their numbers are written. */
export function axes(across: (value: number) => string, up: (value: number) => string): uPlot.Axis[] {
  const widest = (texts: readonly string[] | null) => Math.max(0, ...(texts ?? []).map((one) => one.length));
  return [
    { ...plainAxis(across), size: 32, space: 90 },
    { ...plainAxis(up), size: (_, texts) => 18 + 7 * widest(texts) },
  ];
}

/** A line of values that hold until the next. */
export const stepped: uPlot.Series.PathBuilder = (...asked) =>
  uPlot.paths.stepped?.({ align: 1 })(...asked) ?? null;
