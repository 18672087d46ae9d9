/** The views, in the order of the list beside them. What has no view of its own gets the generic one. */
import type { Declaration } from "../source/source";

export interface View {
  /** As in the address; a question's own name where the view is that question's. */
  readonly id: string;
  readonly title: string;
  /** What it shows, for the list of views on the overview. */
  readonly shows: string;
  /** Questions that it shows. They stand under it, and not in the list of the others. */
  readonly questions: readonly string[];
  /** What fills it, where no question of it exists or has rows. */
  readonly fills?: string;
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
  { id: "steps", title: "Steps", shows: "each step's parts, outliers", questions: ["steps"] },
  {
    id: "operators",
    title: "Operators",
    shows: "time by operator, shape or call stack",
    questions: ["operators"],
  },
  {
    id: "kernels",
    title: "Kernels",
    shows: "time by kernel, occupancy, tensor cores",
    questions: ["kernels"],
  },
  {
    id: "modules",
    title: "Modules",
    shows: "the model as a tree, forward and backward, and as a flame graph",
    questions: ["modules"],
  },
  {
    id: "call-tree",
    title: "Call tree",
    shows: "operators, ranges and Python functions by their callers",
    questions: ["call-tree"],
  },
  {
    id: "timeline",
    title: "Timeline",
    shows: "what ran when on each rank, thread and stream",
    questions: [],
  },
  {
    id: "communication",
    title: "Communication",
    shows: "ranks side by side, what communication costs",
    questions: [
      "rank-overview",
      "communication",
      "overlap",
      "stragglers",
      "rank-map",
      "drift",
      "critical-path",
      "all-to-all",
    ],
    fills: "Record with a trace on every rank of the job: `stepscope record` under the job's launcher.",
  },
  {
    id: "memory",
    title: "Memory",
    shows: "what was allocated, when and by what",
    questions: ["memory", "allocations", "memory-curve"],
    fills: "Record allocations with torch.profiler.profile(profile_memory=True).",
  },
  {
    id: "roofline",
    title: "Roofline",
    shows: "how far each operator is from what the device can do",
    questions: ["roofline"],
  },
  {
    id: "hotspots",
    title: "Hotspots",
    shows: "functions of the host by samples, with their callers",
    questions: ["hotspots"],
    fills: "Give a profile of the host: of py-spy, VTune, or Nsight Systems with its call chains.",
  },
  {
    id: "metrics",
    title: "Kernel metrics",
    shows: "what counters say of each kernel, beside its peak and a baseline",
    questions: ["metrics"],
    fills: "Measure counters with Nsight Compute, and give its report beside the recording.",
  },
  {
    id: "measured",
    title: "Inline and phases",
    shows: "what the job measured of itself: events, phases, throughput, scaling",
    questions: ["inline", "phases", "throughput", "scaling"],
    fills: "Record with `stepscope record --phases` or `stepscope record --inline PLAN`.",
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

/** The questions that stand under no view. */
export function otherQuestions(declarations: readonly Declaration[]): Declaration[] {
  const shown = new Set(VIEWS.flatMap((one) => one.questions));
  return declarations.filter((one) => !shown.has(one.name));
}
