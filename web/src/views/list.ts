/** The views in the order of the menu. Questions without a view of their own get the generic one. */
import type { Declaration, Recording } from "../source/source";
import type { Page } from "../state/page";

export interface View {
  /** As in the address; a question's own name if the view is that question's. */
  readonly id: string;
  readonly title: string;
  /** What it shows, for the overview's list of views. */
  readonly shows: string;
  /** Its questions, listed under it and not among the others. */
  readonly questions: readonly string[];
  /** Without any of these in a recording, the view is empty. */
  readonly from?: readonly string[];
  /** What each question needs; questions without data are skipped at first. */
  readonly made?: Readonly<Record<string, string>>;
}

export const VIEWS: readonly View[] = [
  {
    id: "overview",
    title: "Overview",
    shows: "where the step goes, and what to look at next",
    questions: ["summary"],
  },
  {
    id: "findings",
    title: "Findings",
    shows: "what is worth changing, and what it would save",
    questions: ["findings"],
  },
  { id: "steps", title: "Steps", shows: "each step's parts, outliers", questions: ["steps"], from: ["step"] },
  {
    id: "operators",
    title: "Operators",
    shows: "time by operator, shape or call stack",
    questions: ["operators"],
    from: ["host_event operator", "device_event"],
  },
  {
    id: "kernels",
    title: "Kernels",
    shows: "time by kernel, occupancy, tensor cores",
    questions: ["kernels"],
    from: ["device_event computation", "device_event communication"],
  },
  {
    id: "modules",
    title: "Modules",
    shows: "the model as a tree, forward and backward, and as a flame graph",
    questions: ["modules"],
    from: ["module"],
  },
  {
    id: "call-tree",
    title: "Call tree",
    shows: "operators, ranges and Python functions by their callers",
    questions: ["call-tree"],
    from: ["host_event"],
  },
  {
    id: "timeline",
    title: "Timeline",
    shows: "what ran when on each rank, thread and stream",
    questions: [],
    from: ["host_event", "device_event", "step", "counter", "memory_event", "collective"],
  },
  {
    id: "communication",
    title: "Communication",
    shows: "ranks side by side, what communication costs",
    questions: ["rank-overview", "communication", "overlap", "stragglers", "drift", "critical-path"],
    from: ["host_event", "device_event", "collective"],
  },
  {
    id: "memory",
    title: "Memory",
    shows: "what was allocated, when and by what",
    questions: ["memory"],
    from: ["memory_event", "allocator_event", "memory_block"],
  },
  {
    id: "roofline",
    title: "Roofline",
    shows: "how far each operator is from what the device can do",
    questions: ["roofline"],
    from: ["device_event", "measured_kernel"],
  },
  {
    id: "hotspots",
    title: "Hotspots",
    shows: "functions of the host by samples, with their callers",
    questions: ["hotspots"],
    from: ["stack_sample", "host_event python"],
  },
  {
    id: "metrics",
    title: "Kernel metrics",
    shows: "what counters say of each kernel, beside its peak and a baseline",
    questions: ["metrics"],
    from: ["kernel_metric"],
  },
  {
    id: "measured",
    title: "Inline and phases",
    shows: "what the job measured of itself: events, phases, throughput, scaling",
    questions: ["inline", "phases", "throughput", "scaling"],
    from: ["inline_timing", "phase_step", "step_value"],
    made: { inline: "inline_timing", phases: "phase_step", throughput: "step_value" },
  },
  {
    id: "compare",
    title: "Compare",
    shows: "two recordings: what got slower or faster",
    questions: ["diff"],
  },
  { id: "sql", title: "SQL", shows: "the tables themselves, with their schema", questions: [] },
];

/** The questions of a view that this StepScope has. */
export function questionsOf(view: View, declarations: readonly Declaration[]): Declaration[] {
  return view.questions.flatMap((name) => declarations.filter((one) => one.name === name));
}

const ONE_RECORDING = "There is one recording here; a comparison needs two.";

const NOT_ALIKE =
  "No two recordings here were recorded alike: both with a trace, phases, or events measured inline.";
/** The tables that can be compared. */
const COMPARED = ["step", "phase", "inline_timing"];

/** Whether two recordings have something that can be compared. */
export function areAlike(one: Recording, other: Recording): boolean {
  return COMPARED.some((table) => one.holds.includes(table) && other.holds.includes(table));
}

/** The first two recordings that can be compared; null without any. */
export function alike(recordings: readonly Recording[]): readonly [Recording, Recording] | null {
  for (const [place, one] of recordings.entries()) {
    const other = recordings.slice(place + 1).find((later) => areAlike(one, later));
    if (other !== undefined) return [one, other];
  }
  return null;
}

/** Why a view has nothing to show for a recording; null if it has. */
export function emptyOf(
  view: View,
  { source, recordings, declarations }: Page,
  { holds }: Recording,
): string | null {
  if (view.id === "sql") return source.sql === null ? "A report has no tables; stepscope view has." : null;
  const known = questionsOf(view, declarations);
  const several = recordings.length > 1;
  if (view.id === "compare") return several ? (alike(recordings) === null ? NOT_ALIKE : null) : ONE_RECORDING;
  if (several && known.some((one) => one.recordings === "several")) return null;
  return lacking(view.from, holds, known.find((one) => one.fills !== "")?.fills);
}

function lacking(
  from: readonly string[] | undefined,
  holds: readonly string[],
  fills: string | undefined,
): string | null {
  if (from === undefined || from.some((one) => holds.includes(one))) return null;
  return `Nothing of it was recorded. ${fills ?? ""}`.trim();
}

const DEVICE = ["device_event"];
const CALLS = ["host_event runtime", ...DEVICE];
const EVENTS = ["host_event", ...DEVICE];

/** What questions outside of all views need; unknown for the others. */
const MADE_FROM: Readonly<Record<string, readonly string[]>> = {
  ...from(DEVICE, "classes copies device-time efficiency gpu-summary gpu-trace idle launches"),
  ...from(DEVICE, "prof tensor-cores utilization"),
  ...from(CALLS, "api-summary synchronizations"),
  ...from(EVENTS, "annotations what-if"),
  ...from([...EVENTS, "step"], "durations"),
  ...from(["counter", "kernel_metric"], "counters"),
  ...from(["host_metric"], "host-metrics"),
  ...from(["kernel_metric"], "metrics-diff"),
  ...from(["primitive"], "onednn"),
};

function from(tables: readonly string[], questions: string): Record<string, readonly string[]> {
  return Object.fromEntries(questions.split(" ").map((name) => [name, tables]));
}

/** Why a question outside of all views has no answer for a recording; null if it may have one. */
export function emptyQuestion(
  { name, recordings: asks, fills }: Declaration,
  recordings: readonly unknown[],
  { holds }: Recording,
): string | null {
  if (asks === "two" && recordings.length < 2) return ONE_RECORDING;
  return lacking(MADE_FROM[name], holds, fills);
}

/** The questions outside of all views, by group. */
export function otherQuestions(declarations: readonly Declaration[]): Map<string, Declaration[]> {
  const inViews = new Set(VIEWS.flatMap((view) => view.questions));
  const groups = new Map<string, Declaration[]>();
  for (const question of declarations.filter(({ name }) => !inViews.has(name))) {
    const group = question.group || "others";
    groups.set(group, [...(groups.get(group) ?? []), question]);
  }
  return groups;
}
