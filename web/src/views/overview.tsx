/** The first page: verdict, why, what next, and the figures that it rests on, without scrolling. */

import { PARTS } from "../format/parts";
import { countText, ratioText, timeText } from "../format/units";
import { Answered, Checks } from "../parts/answered";
import { Bars } from "../parts/bars";
import { Gauge } from "../parts/gauge";
import { StackedBar } from "../parts/stack";
import { StepColumns } from "../parts/step-columns";
import { Words } from "../parts/words";
import type { Reply, RowOf } from "../source/source";
import { useAnswer, useLink } from "../state/page";
import { VIEWS } from "./list";

type SummaryRow = RowOf<"summary">;
type Sections = ReadonlyMap<string, readonly SummaryRow[]>;

export function OverviewView() {
  const summary = useAnswer("summary");
  return (
    <Answered asked={summary} bare>
      {(reply) => <Overview reply={reply} />}
    </Answered>
  );
}

function Overview({ reply }: { readonly reply: Reply<SummaryRow> }) {
  const sections = bySection(reply.answer.rows);
  return (
    <div class="overview">
      <h1 class="hidden">Overview</h1>
      <Verdict sections={sections} />
      <Chips rows={sections.get("recorded") ?? []} />
      <div class="cards two">
        <StepCard sections={sections} />
        <DeviceCard rows={sections.get("device") ?? []} inSteps={sections.has("step time")} />
      </div>
      <div class="cards two">
        <FindingsCard rows={sections.get("findings") ?? []} inSteps={sections.has("step time")} />
        <ChecksCard reply={reply} />
      </div>
      <div class="cards three">
        <TopCard view="operators" title="Operators" rows={sections.get("operators") ?? []} />
        <TopCard view="kernels" title="Kernels" rows={sections.get("kernels") ?? []} />
        <TopCard view="modules" title="Modules" rows={sections.get("modules") ?? []} />
      </div>
      <WhereToLook />
    </div>
  );
}

function bySection(rows: readonly SummaryRow[]): Sections {
  const sections = new Map<string, SummaryRow[]>();
  for (const row of rows) {
    const name = row.section ?? "";
    sections.set(name, [...(sections.get(name) ?? []), row]);
  }
  return sections;
}

/** How severe the verdict is, in words and by the colour of an edge. */
function useSeverity(rule: string): string {
  const findings = useAnswer("findings");
  if (rule === "data-quality") return "warning";
  if (findings.state !== "answered") return "note";
  return findings.value.answer.rows.find((one) => one.id === rule)?.severity ?? "note";
}

function Verdict({ sections }: { readonly sections: Sections }) {
  const [first, ...rest] = sections.get("verdict") ?? [];
  const severity = useSeverity(first?.item ?? "");
  const link = useLink();
  if (first === undefined) return null;
  const next = rest.find((one) => one.item === "next");
  const others = rest.filter((one) => one.item !== "next").slice(0, 2);
  return (
    <section class={`verdict edge-${severity}`} aria-label="Verdict">
      <p class="sentence">
        <span class={`severity ${severity}`}>{severity}</span>{" "}
        <a href={link("findings", { find: first.item ?? "" })}>{first.text}</a>.
      </p>
      {next !== undefined && (
        <p>
          <b>Next:</b> <Words text={next.text ?? ""} />
        </p>
      )}
      {others.map((one) => (
        <p key={one.item} class="muted">
          Also {one.text?.replace(/^[^:]*: /, "")}.
        </p>
      ))}
    </section>
  );
}

/** What was recorded, in short. */
function Chips({ rows }: { readonly rows: readonly SummaryRow[] }) {
  const link = useLink();
  const chips = rows.flatMap((row): { name: string; text: string; href?: string }[] => {
    const count = row.count === null || row.count === undefined ? "" : countText(row.count);
    switch (row.item) {
      case "tool":
        return row.text ? [{ name: "tool", text: row.text }] : [];
      case "files": {
        const events = rows.find((one) => one.item === "events")?.count ?? 0;
        const text = `${count}, ${countText(events)} events; ${row.text}`;
        return [{ name: row.count === 1 ? "file" : "files", text, href: link("sources") }];
      }
      case "events":
        return [];
      case "ranks":
        return [{ name: row.count === 1 ? "rank" : "ranks", text: row.text ?? count }];
      case "recordings":
        return [{ name: "recordings", text: count }];
      case "steps":
        return [{ name: "steps", text: `${count} (${row.text})`, href: link("steps") }];
      case "left out":
        return [{ name: "left out of means", text: row.text ?? "" }];
      case "duration":
        return row.time_ns ? [{ name: "recorded", text: timeText(row.time_ns) }] : [];
      default:
        return [{ name: `${count} ×`, text: `${row.item}${(row.text ?? "").replace(/^device/, "")}` }];
    }
  });
  return (
    <ul class="chips" aria-label="What was recorded">
      {chips.map((one) => (
        <li key={one.name + one.text} title={`${one.name}: ${one.text}`}>
          <span class="muted">{one.name}</span>{" "}
          {one.href === undefined ? one.text : <a href={one.href}>{one.text}</a>}
        </li>
      ))}
    </ul>
  );
}

function StepCard({ sections }: { readonly sections: Sections }) {
  const link = useLink();
  const rows = sections.get("breakdown") ?? [];
  const times = sections.get("step time") ?? [];
  const total = rows.find((row) => row.item === "total")?.time_ns ?? 0;
  const parts = PARTS.map((part) => ({
    ...part,
    ns: rows.find((row) => row.item === part.id)?.time_ns ?? null,
  }));
  return (
    <section class="card">
      <h2>
        <a href={link("steps")}>{times.length > 0 ? "Mean step" : "Complete recording"}</a>{" "}
        <span class="plain">
          {times.length > 0
            ? times
                .slice(0, times[0]?.count === 1 ? 1 : undefined)
                .filter((row) => row.time_ns !== null && row.rank === null)
                .map((row) => `${row.item} ${timeText(row.time_ns ?? 0)}`)
                .join(" · ")
            : total > 0
              ? timeText(total)
              : ""}
        </span>
      </h2>
      {rows.length === 0 ? (
        <Measured />
      ) : (
        <div class="step-card">
          <StackedBar parts={parts} total={total} />
          {times.length > 0 && <StepColumns height={74} />}
        </div>
      )}
    </section>
  );
}

/** Where no part of a step was recorded: what the job measured of itself. */
function Measured() {
  const link = useLink();
  const inline = useAnswer("inline");
  const phases = useAnswer("phases");
  const events = inline.state === "answered" ? inline.value.answer.rows : [];
  const timed = phases.state === "answered" ? phases.value.answer.rows : [];
  const measured = [
    ...events.map((row) => ({
      name: row.label,
      rank: row.rank,
      ns: row.mean_ns,
      of: `${row.n} measurements`,
      view: "inline",
    })),
    ...timed.map((row) => ({
      name: row.phase,
      rank: row.rank,
      ns: row.mean_ns,
      of: `${row.steps} steps`,
      view: "phases",
    })),
  ];
  if (measured.length === 0) return <p class="muted">No part of a step was recorded.</p>;
  const severalRanks = new Set(measured.map((row) => row.rank)).size > 1;
  const bars = measured.slice(0, MOST_EVENTS).map((row) => ({
    name: severalRanks ? `${row.name}, rank ${row.rank}` : (row.name ?? ""),
    full: `${row.name}, rank ${row.rank}: ${row.of}`,
    value: row.ns ?? 0,
    href: link("measured", { question: row.view }),
  }));
  return (
    <>
      <p class="muted">No part of a step was recorded. What the job measured of itself, mean time:</p>
      <Bars bars={bars} unit="ns" total={null} label="Measured by the job" />
    </>
  );
}

const MOST_EVENTS = 10;

const GAUGES: readonly (readonly [string, string])[] = [
  ["GPU utilisation", "time with at least one kernel running, of all step time"],
  ["est. SM efficiency", "how many of the multiprocessors the kernels' blocks reach, over the step time"],
  ["est. achieved occupancy", "warps in flight of those possible, while kernels run"],
];

function DeviceCard({ rows, inSteps }: { readonly rows: readonly SummaryRow[]; readonly inSteps: boolean }) {
  const link = useLink();
  const ratio = (item: string) => rows.find((row) => row.item === item)?.share_ratio ?? null;
  const times = rows.filter((row) => row.time_ns !== null && row.time_ns !== undefined);
  return (
    <section class="card">
      <h2>
        <a href={link("utilization")}>Device</a>{" "}
        <span class="plain">{inSteps ? "first to last step" : "complete recording"}</span>
      </h2>
      <div class="gauges">
        {GAUGES.map(([item, meaning]) => (
          <Gauge key={item} title={item} ratio={ratio(item)} meaning={meaning} />
        ))}
      </div>
      {rows.length === 0 ? (
        <p class="muted small">No device was recorded: activities must include the device's.</p>
      ) : (
        <dl class="figures">
          {times
            .filter((row) => row.share_ratio || row.item !== "without a known launch")
            .map((row) => (
              <div key={row.item}>
                <dt>{row.item}</dt>
                <dd>{ratioText(row.share_ratio ?? 0)}</dd>
              </div>
            ))}
        </dl>
      )}
    </section>
  );
}

function FindingsCard({
  rows,
  inSteps,
}: {
  readonly rows: readonly SummaryRow[];
  readonly inSteps: boolean;
}) {
  const link = useLink();
  return (
    <section class="card">
      <h2>
        <a href={link("findings")}>Findings</a>{" "}
        <span class="plain">by the most that {inSteps ? "a step" : "the recording"} could save</span>
      </h2>
      {rows.length === 0 ? (
        <p class="muted">No further finding.</p>
      ) : (
        <ol class="findings-short">
          {rows.map((row) => (
            <li key={row.item} title={row.text ?? ""}>
              <span class="number">{row.time_ns ? timeText(row.time_ns) : "–"}</span>
              <span class="number muted">{row.share_ratio ? ratioText(row.share_ratio) : ""}</span>
              <a href={link("findings", { find: row.item ?? "" })}>{row.text}</a>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

function ChecksCard({ reply }: { readonly reply: Reply }) {
  const link = useLink();
  const { checks } = reply.answer;
  return (
    <section class="card">
      <h2>
        <a href={link("checks")}>Data quality</a>
      </h2>
      {checks.length === 0 ? (
        <p class="good">✓ No check found anything wrong.</p>
      ) : (
        <Checks checks={checks} />
      )}
    </section>
  );
}

interface TopProps {
  readonly view: string;
  readonly title: string;
  readonly rows: readonly SummaryRow[];
}

function TopCard({ view, title, rows }: TopProps) {
  const link = useLink();
  const own = useAnswer(view);
  const labels = new Map(own.state === "answered" ? own.value.labels.name : []);
  const bars = rows.map((row) => {
    const full = row.item ?? "";
    return {
      name: labels.get(full) ?? full,
      full,
      value: row.time_ns ?? 0,
      beside: row.share_ratio === null || row.share_ratio === undefined ? "" : ratioText(row.share_ratio),
      href: link(view, { find: full }),
    };
  });
  return (
    <section class="card">
      <h2>
        <a href={link(view)}>{title}</a> <span class="plain">{rows[0] && `by ${rows[0].text}`}</span>
      </h2>
      {rows.length > 0 && <Bars bars={bars} unit="ns" total={null} label={title} />}
      {rows.length === 0 && own.state === "answered" && own.value.answer.rows.length === 0 && (
        <p class="muted">
          <Words text={own.value.answer.note ?? "None was recorded."} />
        </p>
      )}
    </section>
  );
}

function WhereToLook() {
  const link = useLink();
  return (
    <details class="where">
      <summary>Where to look for what</summary>
      <dl>
        {VIEWS.slice(1).map((one) => (
          <div key={one.id}>
            <dt>
              <a href={link(one.id)}>{one.title}</a>
            </dt>
            <dd>{one.shows}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
