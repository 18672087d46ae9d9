/** Parts of a recording to which a question can be limited: ranks, steps, and filters of events. */
import type { Declaration, DeclaredParameter } from "../source/source";

const MEANINGS: Readonly<Record<string, string>> = {
  rank: "ranks, as in 0,2-4",
  step: "steps, as in 5,7-9",
  name: "events whose name is this; *glob* or /regex/",
  under: "events of a module, or inside an operator or range, of this name",
  window: "a stretch of time, as in 10ms:20ms",
};

/** The filters that one form of a question takes. */
export function partsOf(declared: Declaration, by: string): DeclaredParameter[] {
  if (declared.recordings !== "one") return [];
  const filters = declared.filters[by] ?? declared.filters[""] ?? [];
  return ["rank", "step", ...filters]
    .filter((name) => !declared.parameters.some((one) => one.name === name))
    .map((name) => ({
      name,
      type: "text",
      meaning: MEANINGS[name] ?? "",
      default: null,
      choices: [],
      form: false,
      picks: null,
    }));
}
