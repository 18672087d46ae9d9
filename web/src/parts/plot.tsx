/** A uPlot chart that fits its place and follows the system's theme. */
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { colourOf } from "../format/parts";
import "uplot/dist/uPlot.min.css";

interface Props {
  /** Made anew when the theme changes, so that it can ask for colours. */
  readonly options: () => Omit<uPlot.Options, "width" | "height">;
  readonly data: uPlot.AlignedData;
  readonly height: number;
  /** What it shows, for people who do not see it; the table beside it has the numbers. */
  readonly label: string;
}

export function Plot({ options, data, height, label }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const dark = useDark();
  useEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    const plot = new uPlot({ ...options(), width: box.clientWidth, height }, data, box);
    const follow = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height }));
    follow.observe(box);
    return () => {
      follow.disconnect();
      plot.destroy();
    };
  }, [options, data, height, dark]);
  return <div class="uplot-place" ref={place} role="img" aria-label={label} />;
}

/** Whether the system asks for a dark page, as it changes. */
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

/** Of several lines in a plot, in order. */
export const LINE_COLOURS = [
  "--kernel",
  "--communication",
  "--dataloader",
  "--runtime",
  "--memcpy",
  "--cpu-exec",
];

export function axis(text: (value: number) => string): uPlot.Axis {
  return {
    stroke: colourOf("--muted"),
    grid: { stroke: colourOf("--line"), width: 1 },
    ticks: { stroke: colourOf("--line"), width: 1 },
    values: (_, splits) => splits.map(text),
    size: 70,
  };
}

/** A line of values that hold until the next. */
export const stepped: uPlot.Series.PathBuilder = (...asked) =>
  uPlot.paths.stepped?.({ align: 1 })(...asked) ?? null;
