/** The first page: the verdict, why, what next, and the underlying figures, without scrolling. */

import { plain } from "../format/cut";
import { PARTS, PHASES } from "../format/parts";
import { countText, ratioText, timeText } from "../format/units";
import { AnswerChart } from "../parts/answer-chart";
import { Answered, Checks } from "../parts/answered";
import { Bars } from "../parts/bars";
import { Gauge } from "../parts/gauge";
import { StackedBar } from "../parts/stack";
import { StepColumns } from "../parts/step-columns";
import { Plain, Words } from "../parts/words";
import type { Reply, RowOf } from "../source/source";
import { useAnswer, useLink, usePage, useRecording } from "../state/page";
import { emptyOf, VIEWS } from "./list";
import { Curves } from "./memory";
import { SpeedOfLight } from "./metrics";

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
  const inSteps = sections.has("step time");
  const tops = TOPS.map(([view, title]) => ({ view, title, rows: sections.get(view) ?? [] }));
  const listed = tops.filter((one) => one.rows.length > 0);
  const isTimed = listed.length > 0 || ["breakdown", "phases", "device"].some((one) => sections.has(one));
  const absent = tops.filter((one) => one.rows.length === 0);
  const device = sections.get("device") ?? [];
  const findings = <FindingsCard rows={sections.get("findings") ?? []} inSteps={inSteps} />;
  return (
    <div class="overview">
      <h1 class="hidden">Overview</h1>
      <Verdict sections={sections} />
      <Chips rows={sections.get("recorded") ?? []} />
      {isTimed ? (
        <div class="cards two">
          <div>
            <StepCard sections={sections} />
            {!sections.has("breakdown") && sections.has("phases") && <PhasesOverTime />}
            {device.length > 0 && findings}
          </div>
          <div>
            <DeviceCard rows={device} inSteps={inSteps} />
            {device.length === 0 && findings}
            <ChecksCard reply={reply} />
          </div>
        </div>
      ) : (
        <>
          <Untimed times={sections.get("step time") ?? []} />
          <ChecksCard reply={reply} />
        </>
      )}
      {listed.length > 0 && (
        <div class="cards tops">
          {listed.map((one) =>
            one.view === "kernels" ? (
              <KernelsCard key={one.view} {...one} />
            ) : (
              <TopCard key={one.view} {...one} />
            ),
          )}
        </div>
      )}
      {absent.length > 0 && (
        <ul class="absent small">
          {absent.map((one) => (
            <Absent key={one.view} {...one} />
          ))}
        </ul>
      )}
      <WhereToLook />
    </div>
  );
}

/** Bars of each list. */
const MOST_TOP = 7;
const TOPS = [
  ["operators", "Operators"],
  ["kernels", "Kernels"],
  ["modules", "Modules"],
] as const;

function bySection(rows: readonly SummaryRow[]): Sections {
  const sections = new Map<string, SummaryRow[]>();
  for (const row of rows) {
    const name = row.section ?? "";
    sections.set(name, [...(sections.get(name) ?? []), row]);
  }
  return sections;
}

function severityOf(finding: SummaryRow | undefined): string {
  return finding?.item === "data-quality" ? "warning" : (finding?.severity ?? "note");
}

function Severity({ of }: { readonly of: string }) {
  return <span class={`severity ${of}`}>{of}</span>;
}

function Verdict({ sections }: { readonly sections: Sections }) {
  const [first, ...rest] = sections.get("verdict") ?? [];
  const severity = severityOf(first);
  const link = useLink();
  if (first === undefined) return null;
  const next = rest.find((one) => one.item === "next");
  const others = rest.filter((one) => one.item !== "next").slice(0, 2);
  return (
    <section class={`verdict edge-${severity}`} aria-label="Verdict">
      <p class="sentence">
        <Severity of={severity} />{" "}
        <a href={link("findings", { find: first.item ?? "" })}>
          <Plain text={first.text ?? ""} />
        </a>
        .
      </p>
      {next !== undefined && (
        <p>
          <b>Next:</b> <Words text={next.text ?? ""} />
        </p>
      )}
      {others.map((one) => (
        <p key={one.item} class="muted also" title={one.text ?? ""}>
          Also <Plain text={one.text?.replace(/^[^:]*: /, "") ?? ""} />.
        </p>
      ))}
    </section>
  );
}

/** A short description of the recording. */
function Chips({ rows }: { readonly rows: readonly SummaryRow[] }) {
  const link = useLink();
  const steps = useSteps();
  const chips = rows.flatMap((row): { name: string; text: string; href?: string }[] => {
    const count = row.count === null || row.count === undefined ? "" : countText(row.count);
    switch (row.item) {
      case "tool":
        return row.text ? [{ name: "tool", text: row.text }] : [];
      case "files":
        return [{ name: row.count === 1 ? "file" : "files", text: count, href: link("sources") }];
      case "events":
        return [{ name: row.count === 1 ? "event" : "events", text: count }];
      case "ranks":
        return [{ name: row.count === 1 ? "rank" : "ranks", text: row.text ?? count }];
      case "recordings":
        return [{ name: "recordings", text: count }];
      case "clocks": // part of how far to trust the recording
        return [];
      case "steps":
        return row.count === 0 ? [] : [{ name: "steps", text: `${count} (${row.text})`, href: steps }];
      case "left out":
        return [{ name: "means", text: (row.text ?? "").replace(/^Means /, "").replace(/\.$/, "") }];
      case "duration":
        return row.time_ns ? [{ name: "recorded", text: timeText(row.time_ns) }] : [];
      default:
        return [
          { name: `${count} ×`, text: `${plain(row.item ?? "")}${(row.text ?? "").replace(/^device/, "")}` },
        ];
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

/** The link to the steps: those of a trace, else the phases that the job timed. */
function useSteps(): string {
  const link = useLink();
  const { holds } = useRecording();
  return holds.includes("step") || !holds.includes("phase")
    ? link("steps")
    : link("measured", { question: "phases" });
}

function StepCard({ sections }: { readonly sections: Sections }) {
  const steps = useSteps();
  const rows = sections.get("breakdown") ?? [];
  const times = sections.get("step time") ?? [];
  const phases = sections.get("phases") ?? [];
  const total = rows.find((row) => row.item === "total")?.time_ns ?? 0;
  const mean = times.find((row) => row.item === "mean")?.time_ns ?? total;
  const isOne = times[0]?.count === 1;
  const isTraced = times.some((row) => row.item === "not traced");
  const spread = times.flatMap((row) => {
    if (row.text) return [row.text.replace(/\.$/, "")];
    if (isOne || row.item === "mean" || row.time_ns === null || row.time_ns === undefined) return [];
    if (typeof row.rank === "number") return [];
    return [`${row.item} ${timeText(row.time_ns)}`];
  });
  const ranks = times.filter((row) => typeof row.rank === "number" && row.time_ns);
  if (ranks.length > 0) {
    const reach = ranks.map((row) => `${timeText(row.time_ns ?? 0)} (${row.rank})`);
    spread.push(`ranks ${reach.join(" to ")}`);
  }
  const parts = PARTS.map((part) => ({
    ...part,
    ns: rows.find((row) => row.item === part.id)?.time_ns ?? null,
  }));
  return (
    <section class="card">
      <h2>
        <a href={steps}>
          {times.length === 0 ? "Complete recording" : isOne ? "Step" : "Mean step"}
          {isTraced ? ", traced" : ""}
        </a>{" "}
        <b class="figure">{mean > 0 ? timeText(mean) : ""}</b> <span class="plain">{spread.join(" · ")}</span>
      </h2>
      {rows.length === 0 && phases.length > 0 ? (
        <PhaseBar rows={phases} />
      ) : rows.length === 0 ? (
        <p class="muted">No part of a step was recorded.</p>
      ) : (
        <div class="step-card">
          <StackedBar parts={parts} total={total} />
          {times.length > 0 && !isOne && <StepColumns height={74} mean={mean} />}
        </div>
      )}
    </section>
  );
}

/** The phases as the job timed them, if no trace says what a step did. */
function PhaseBar({ rows }: { readonly rows: readonly SummaryRow[] }) {
  const link = useLink();
  const time = (item: string) => rows.find((row) => row.item === item)?.time_ns ?? null;
  return (
    <div class="step-card">
      <StackedBar parts={PHASES.map((one) => ({ ...one, ns: time(one.id) }))} total={time("step") ?? 1} />
      <p class="muted small">
        On the host, timed by the job itself: mean of {countText(rows[0]?.count ?? 0)} steps.{" "}
        <a href={link("measured", { question: "phases" })}>Each step</a>
      </p>
    </div>
  );
}

/** How the phases changed over the run. */
function PhasesOverTime() {
  const windows = useAnswer("phases", { by: "window" });
  return windows.state === "answered" ? (
    <AnswerChart reply={windows.value as Reply} leads="measured" />
  ) : null;
}

/** What the job measured of itself, without a trace. */
function Measured({ throughput }: { readonly throughput: string }) {
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
  if (measured.length === 0) return null;
  const severalRanks = new Set(measured.map((row) => row.rank)).size > 1;
  const bars = measured.slice(0, MOST_EVENTS).map((row) => ({
    name: severalRanks ? `${row.name}, rank ${row.rank}` : (row.name ?? ""),
    full: `${row.name}, rank ${row.rank}: ${row.of}`,
    value: row.ns ?? 0,
    href: link("measured", { question: row.view }),
  }));
  return (
    <section class="card">
      <h2>
        <a href={link("measured")}>What the job measured of itself</a>{" "}
        <span class="plain">mean time{throughput && ` · ${throughput}`}</span>
      </h2>
      <Bars bars={bars} unit="ns" total={null} label="Measured by the job" />
    </section>
  );
}

/** What a recording without operators, device work and steps has instead. */
function Untimed({ times }: { readonly times: readonly SummaryRow[] }) {
  const hotspots = useAnswer("hotspots");
  const onednn = useAnswer("onednn");
  const metrics = useAnswer("metrics");
  return (
    <>
      <Measured throughput={times.flatMap((row) => row.text ?? []).join(" ")} />
      {hotspots.state === "answered" && <AnswerChart reply={hotspots.value as Reply} leads="hotspots" />}
      {onednn.state === "answered" && <AnswerChart reply={onednn.value as Reply} leads="onednn" />}
      {metrics.state === "answered" && <SpeedOfLight reply={metrics.value} baseline={null} />}
      <Curves />
    </>
  );
}

const MOST_EVENTS = 10;

/** The parts of the device's time, in the order of the rules that decide. */
const DEVICE_PARTS = [
  { id: "computation", title: "Computation", colour: "--kernel", meaning: "a kernel computes" },
  {
    id: "exposed communication",
    title: "Exposed communication",
    colour: "--communication",
    meaning: "communication runs and nothing computes",
  },
  {
    id: "exposed copy",
    title: "Exposed copies",
    colour: "--memcpy",
    meaning: "copies run, and nothing computes or communicates",
  },
  { id: "idle", title: "Idle", colour: "--other", meaning: "nothing runs on the device" },
] as const;

const GAUGES: readonly (readonly [string, string])[] = [
  ["GPU utilisation", "time with at least one kernel running, of all step time"],
  ["est. SM efficiency", "how many of the multiprocessors the kernels' blocks reach, over the step time"],
  ["est. achieved occupancy", "warps in flight of those possible, while kernels run"],
];

function DeviceCard({ rows, inSteps }: { readonly rows: readonly SummaryRow[]; readonly inSteps: boolean }) {
  const link = useLink();
  const ratio = (item: string) => rows.find((row) => row.item === item)?.share_ratio ?? null;
  const time = (item: string) => rows.find((row) => row.item === item)?.time_ns ?? null;
  const parts = DEVICE_PARTS.map((one) => ({ ...one, ns: time(one.id) }));
  const span = parts.reduce((sum, one) => sum + (one.ns ?? 0), 0);
  const extremes = rows.filter((row) => typeof row.rank === "number");
  return (
    <section class="card">
      <h2>
        <a href={link("utilization")}>Device</a>{" "}
        <span class="plain">{inSteps ? "within steps" : "complete recording"}</span>
      </h2>
      {rows.length === 0 ? (
        <p class="muted">
          No work of a device was recorded. Where the job uses one, its activities have to be recorded too.
        </p>
      ) : (
        <div class="gauges">
          {GAUGES.map(([item, meaning]) => (
            <Gauge key={item} title={item} ratio={ratio(item)} meaning={meaning} />
          ))}
        </div>
      )}
      {span > 0 && <p class="muted small">From its first work to its last:</p>}
      {span > 0 && <StackedBar parts={parts} total={span} shares />}
      {extremes.length > 0 && (
        <p class="muted small">
          Utilisation of ranks:{" "}
          {extremes.map((row) => `${ratioText(row.share_ratio ?? 0)} (rank ${row.rank})`).join(" to ")}
        </p>
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
        <span class="plain">what {inSteps ? "a step" : "the recording"} could save at most</span>
      </h2>
      {rows.length === 0 ? (
        <p class="muted">No further one with a saving.</p>
      ) : (
        <ol class="findings-short">
          {rows.map((row) => (
            <li key={row.item} title={row.text ?? ""}>
              <span class="number">{row.time_ns ? timeText(row.time_ns) : "–"}</span>
              <span class="number muted">{row.share_ratio ? ratioText(row.share_ratio) : ""}</span>
              <span>
                <Severity of={severityOf(row)} />
              </span>
              <a href={link("findings", { find: row.item ?? "" })}>
                <Plain text={row.text ?? ""} />
              </a>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

const MOST_CHECKS = 3;

function ChecksCard({ reply }: { readonly reply: Reply<SummaryRow> }) {
  const link = useLink();
  const { checks, rows } = reply.answer;
  const recorded = (item: string) => rows.find((row) => row.section === "recorded" && row.item === item);
  const files = recorded("files");
  const clocks = recorded("clocks")?.text;
  return (
    <section class="card">
      <h2>
        <a href={link("checks")}>Data quality</a>
      </h2>
      {files !== undefined && (
        <p>
          {countText(files.count ?? 0)} {files.count === 1 ? "file" : "files"}: {files.text}
          {clocks && <>; {clocks}</>}.
        </p>
      )}
      {checks.length === 0 ? (
        <p class="good">✓ No check found anything wrong.</p>
      ) : (
        <Checks checks={checks} most={MOST_CHECKS} />
      )}
    </section>
  );
}

interface TopProps {
  readonly view: string;
  readonly title: string;
  readonly rows: readonly SummaryRow[];
}

/** Kernels with their short names, from the question about them. */
function KernelsCard(props: TopProps) {
  const own = useAnswer("kernels");
  return <TopCard {...props} labels={new Map(own.state === "answered" ? own.value.labels.name : [])} />;
}

function TopCard({
  view,
  title,
  rows,
  labels,
}: TopProps & { readonly labels?: ReadonlyMap<string, string> }) {
  const link = useLink();
  const bars = rows.slice(0, MOST_TOP).map((row) => {
    const full = row.item ?? "";
    return {
      name: labels?.get(full) ?? full,
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
      <Bars bars={bars} unit="ns" total={null} label={title} />
    </section>
  );
}

/** One line on why something was not recorded. */
function Absent({ view, title }: TopProps) {
  const page = usePage();
  const link = useLink();
  const recording = useRecording();
  const known = VIEWS.find((one) => one.id === view);
  return (
    <li>
      <a href={link(view)}>{title}</a>:{" "}
      <span class="muted">
        <Words
          text={(known && emptyOf(known, page, recording)) ?? "None took time in what is counted here."}
        />
      </span>
    </li>
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
