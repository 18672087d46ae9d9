/** The distribution of a name's single calls: a histogram, each bar of which leads to its longest call. */
import { useMemo } from "preact/hooks";
import { countText, ratioText, tickText, timeText } from "../format/units";
import type { Reply, Row } from "../source/source";
import { useAnswer, useDeclaration, useLink, usePage } from "../state/page";
import { partsOf } from "../state/part";
import { histogram, ticks } from "../table/histogram";
import { spotState } from "../timeline/address";
import { Answered } from "./answered";
import { Cut } from "./cut";
import { Walk } from "./walk";
import { useWidth } from "./width";
import { Words } from "./words";

/** By question: the form of `durations` that has the events of its rows, and their name. */
const EVENTS: Readonly<Record<string, readonly [by: string, what: string]>> = {
  operators: ["operator", "calls by duration on the host"],
  annotations: ["annotation", "ranges by duration on the host"],
  "api-summary": ["runtime", "calls by duration on the host"],
  kernels: ["device", "runs by duration"],
  "gpu-summary": ["device", "runs by duration"],
};
const MOST_NAMES = 6;
/** Fewer calls have no distribution. */
const FEWEST = 2;
/** Parts that add up to everything, apart from rounding. */
const ALL = 1 - 1e-9;
const WIDTH = 1000;
const HEIGHT = 84;
/** Space for a duration below the bars, in pixels. */
const TICK = 90;

/** The single calls of a row's name; nothing for rows that are not about single calls. */
export function RowDurations({ question, row }: { readonly question: string; readonly row: Row }) {
  const [by, what] = EVENTS[question] ?? [];
  if (by === undefined || what === undefined || typeof row.name !== "string") return null;
  return <OfName by={by} what={what} row={row} called={row.name} />;
}

interface OfNameProps {
  readonly by: string;
  readonly what: string;
  readonly row: Row;
  readonly called: string;
}

function OfName({ by, what, row, called }: OfNameProps) {
  const { address } = usePage();
  const declared = useDeclaration("durations");
  // Also limited to the row's ranks, steps and events.
  const parts = declared === undefined ? [] : partsOf(declared, by);
  const narrowed = parts.flatMap(({ name }) => {
    const text = address.state.get(name);
    return text === undefined ? [] : [[name, text] as const];
  });
  const asked = useAnswer("durations", { ...Object.fromEntries(narrowed), by, event: called });
  if (asked.state === "answered") {
    const { rows, note } = asked.value.answer;
    const held = rows.reduce((sum, one) => sum + Number(one.count_share_ratio), 0);
    if (note !== undefined && held < ALL)
      return (
        <p class="note">
          No histogram of single calls. <Words text={note} />
        </p>
      );
    if (rows.reduce((sum, one) => sum + Number(one.count), 0) < FEWEST) return null;
  }
  const mean = [row.mean_ns, row.host_mean_ns].find((one) => typeof one === "number");
  return (
    <Answered asked={asked} bare>
      {({ answer }) => <Histogram rows={answer.rows} mean={mean} what={what} />}
    </Answered>
  );
}

/** The first name's rows in an answer for several names. */
export function Durations({ reply }: { readonly reply: Reply }) {
  const { rows } = reply.answer;
  const names = [...new Set(rows.map((row) => String(row.name)))];
  const labels = new Map(reply.labels.name);
  return (
    <section class="card">
      <h2>
        By duration
        {names.length > 1 && `, the ${Math.min(MOST_NAMES, names.length)} names with the most time`}
      </h2>
      <div class="histograms">
        {names.slice(0, MOST_NAMES).map((name) => (
          <Histogram
            key={name}
            name={labels.get(name) ?? name}
            rows={rows.filter((row) => row.name === name)}
            what="by duration"
          />
        ))}
      </div>
    </section>
  );
}

interface HistogramProps {
  readonly rows: readonly Row[];
  readonly name?: string;
  /** The selected row, among all of its name. */
  readonly mean?: number | undefined;
  /** What is counted, written after its number. */
  readonly what: string;
}

function Histogram({ rows, name, mean, what }: HistogramProps) {
  const link = useLink();
  const [place, width] = useWidth();
  const drawn = useMemo(() => histogram(rows), [rows]);
  const all = rows.reduce((sum, row) => sum + Number(row.count), 0);
  const at = mean === undefined ? null : drawn.at(mean);
  const marks = drawn.bins.map(({ row }) => ({
    words: words(row),
    href: link(
      "timeline",
      spotState({
        from: Number(row.start_ns),
        to: Number(row.start_ns) + Math.max(1, Number(row.dur_ns)),
        rank: Number(row.rank),
      }),
    ),
  }));
  const title = `${countText(all)} ${what}`;
  const below = ticks(drawn, Math.max(1, Math.min(5, Math.floor(width / TICK))));
  return (
    <figure class="histogram">
      <figcaption>
        {name !== undefined && (
          <span class="bar-name" title={name}>
            <Cut text={name} />
          </span>
        )}
        <span class="muted">
          {title}
          {at !== null && mean !== undefined && `; the line is this row's mean, ${timeText(mean)}`}
        </span>
      </figcaption>
      <div ref={place}>
        <Walk label={[name, title].filter(Boolean).join(": ")} marks={marks}>
          {(chosen) => (
            <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
              {drawn.bins.map(({ from, to, tall }, index) => (
                // biome-ignore lint/a11y/noStaticElementInteractions: Enter goes there, too
                <g
                  key={from}
                  class={`door${index === chosen ? " at" : ""}`}
                  onClick={() => location.assign(marks[index]?.href ?? "")}
                >
                  <title>{marks[index]?.words}</title>
                  <rect class="behind" x={WIDTH * from} width={WIDTH * (to - from)} y={0} height={HEIGHT} />
                  <rect
                    x={WIDTH * from}
                    width={WIDTH * (to - from)}
                    y={HEIGHT * (1 - tall)}
                    height={HEIGHT * tall}
                  />
                </g>
              ))}
              {at !== null && <path class="mean" d={`M${WIDTH * at} 0V${HEIGHT}`} />}
            </svg>
          )}
        </Walk>
        <div class="names" aria-hidden="true">
          {below.map((ns) => (
            <span key={ns}>{tickText(ns, "ns")}</span>
          ))}
        </div>
      </div>
    </figure>
  );
}

function words(row: Row): string {
  const [from, to] = [timeText(Number(row.from_ns)), timeText(Number(row.to_ns))];
  return [
    `${from} to ${to}: ${countText(Number(row.count))} (${ratioText(Number(row.count_share_ratio))})`,
    `together ${timeText(Number(row.total_ns))}, ${ratioText(Number(row.share_ratio))} of the time`,
    `the longest, ${timeText(Number(row.dur_ns))}: on the timeline`,
  ].join("\n");
}
