/** Counters: how close each kernel comes to the device's peak in computing and memory, beside a baseline. */
import { ratioText, timeText } from "../format/units";
import { Answered } from "../parts/answered";
import { Cut } from "../parts/cut";
import type { Reply, RowOf } from "../source/source";
import { useAnswer, useChange, usePage, useRecording } from "../state/page";
import { QuestionHead, QuestionRows, useParameters } from "./generic";
import { hasPoints, RooflineChart } from "./roofline";

type Metric = RowOf<"metrics">;

const MOST = 20;
const SIDES: readonly (readonly [string, string, (row: Metric) => number | null | undefined])[] = [
  ["compute", "compute", (row) => row.compute_ratio],
  ["memory", "memory", (row) => row.memory_ratio],
];
/** The threshold at which Nsight Compute's rule changes its verdict. */
const MARKS = [0.6, 0.8];

export function MetricsView() {
  const { recordings, address } = usePage();
  const change = useChange();
  const own = useRecording();
  const others = recordings.filter((one) => one.id !== own.id);
  const baseline = others.find((one) => one.id === address.state.get("baseline"));
  const asked = useAnswer("metrics", useParameters("metrics"));
  return (
    <>
      <QuestionHead question="metrics" />
      {others.length > 0 && (
        <label>
          baseline{" "}
          <select
            value={baseline?.id ?? ""}
            onChange={(event) => change({ baseline: event.currentTarget.value })}
          >
            <option value="">none</option>
            {others.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name}
              </option>
            ))}
          </select>
        </label>
      )}
      <Answered asked={asked}>
        {(reply) => (
          <>
            {reply.answer.columns.some((one) => one.name === "compute_ratio") &&
              (baseline === undefined ? (
                <SpeedOfLight reply={reply} baseline={null} />
              ) : (
                <BesideBaseline reply={reply} id={baseline.id} name={baseline.name} />
              ))}
            <KernelRoofline />
            <QuestionRows reply={reply} />
          </>
        )}
      </Answered>
    </>
  );
}

/** The measured kernels under the device's roofs, if operations and bytes are known. */
function KernelRoofline() {
  const asked = useAnswer("roofline", { by: "kernel" });
  if (asked.state !== "answered" || !hasPoints(asked.value)) return null;
  return <RooflineChart reply={asked.value} />;
}

interface BaselineProps {
  readonly reply: Reply<Metric>;
  readonly id: string;
  readonly name: string;
}

function BesideBaseline({ reply, id, name }: BaselineProps) {
  const asked = useAnswer("metrics", {}, [id]);
  const rows = asked.state === "answered" ? asked.value.answer.rows : [];
  return (
    <SpeedOfLight
      reply={reply}
      baseline={{ name, rows: new Map(rows.map((row) => [row.kernel ?? "", row])) }}
    />
  );
}

interface Props {
  readonly reply: Reply<Metric>;
  readonly baseline: { readonly name: string; readonly rows: ReadonlyMap<string, Metric> } | null;
}

/** The bars of an answer to `metrics`; nothing if none was measured. */
export function SpeedOfLight({ reply, baseline }: Props) {
  const measured = reply.answer.rows.filter((row) => SIDES.some(([, , of]) => typeof of(row) === "number"));
  if (measured.length === 0) return null;
  const labels = new Map(reply.labels.kernel);
  return (
    <section class="card">
      <h2>
        Speed of light <span class="plain">part of the device's peak; kernels with most time first</span>
      </h2>
      <ol class="lights">
        {measured.slice(0, MOST).map((row, place) => {
          const before = baseline?.rows.get(row.kernel ?? "");
          return (
            <li key={`${row.kernel} ${row.grid} ${row.block} ${place}`} title={row.kernel ?? ""}>
              <span class="bar-name">
                <Cut text={labels.get(row.kernel ?? "") ?? row.kernel ?? "–"} />
              </span>
              <span class="number">
                {row.device_ns === null || row.device_ns === undefined ? "–" : timeText(row.device_ns)}
              </span>
              <span class="light-bars">
                {SIDES.map(([side, title, of]) => (
                  <LightBar
                    key={side}
                    side={side}
                    title={title}
                    ratio={of(row) ?? null}
                    before={before === undefined ? null : (of(before) ?? null)}
                  />
                ))}
              </span>
              <span class="muted small">{[row.limiter, row.verdict].filter(Boolean).join(": ")}</span>
            </li>
          );
        })}
      </ol>
      <p class="muted small">
        <span class="swatch light-compute" /> compute <span class="swatch light-memory" /> memory; lines at 60
        % and 80 %.{baseline !== null && ` The mark in a bar is ${baseline.name}.`}
      </p>
    </section>
  );
}

interface BarProps {
  readonly side: string;
  readonly title: string;
  readonly ratio: number | null;
  readonly before: number | null;
}

function LightBar({ side, title, ratio, before }: BarProps) {
  const words = ratio === null ? "not measured" : ratioText(ratio);
  const wide = (part: number) => `${100 * Math.min(1, Math.max(0, part))}%`;
  return (
    <span
      class="light"
      title={`${title}: ${words}${before === null ? "" : `, baseline ${ratioText(before)}`}`}
    >
      <span class="light-track">
        {ratio !== null && <span class={`light-${side}`} style={{ width: wide(ratio) }} />}
        {MARKS.map((mark) => (
          <span key={mark} class="light-mark" style={{ left: wide(mark) }} />
        ))}
        {before !== null && <span class="light-before" style={{ left: wide(before) }} />}
      </span>
      <span class={ratio === null ? "unmeasured" : ""}>{ratio === null ? "–" : words}</span>
    </span>
  );
}
