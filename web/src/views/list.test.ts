import { describe, expect, it } from "vitest";
import type { Declaration } from "../source/source";
import { alike, emptyQuestion } from "./list";

const asked = (name: string, recordings: Declaration["recordings"] = "one") =>
  ({ name, recordings, fills: "Count." }) as Declaration;
const holding = (...holds: string[]) => ({ id: "1", name: "run", holds });

describe("questions that stand under no view", () => {
  it("are empty where what they are made from was not recorded", () => {
    expect(emptyQuestion(asked("onednn"), [1], holding("host_event"))).toBe(
      "Nothing of it was recorded. Count.",
    );
    expect(emptyQuestion(asked("onednn"), [1], holding("primitive"))).toBeNull();
    expect(emptyQuestion(asked("idle"), [1], holding("host_event"))).not.toBeNull();
    expect(emptyQuestion(asked("idle"), [1], holding("host_event", "device_event"))).toBeNull();
    expect(emptyQuestion(asked("checks"), [1], holding())).toBeNull();
  });

  it("need counters of a kind they know", () => {
    expect(emptyQuestion(asked("counters"), [1], holding("step"))).not.toBeNull();
    expect(emptyQuestion(asked("counters"), [1], holding("counter"))).toBeNull();
  });

  it("need both sides where they have two", () => {
    const two = asked("metrics-diff", "two");
    expect(emptyQuestion(two, [1], holding("kernel_metric"))).toContain("needs two");
    expect(emptyQuestion(two, [1, 2], holding("kernel_metric"))).toBeNull();
  });
});

describe("what is compared", () => {
  const trace = holding("step", "host_event");
  const timed = holding("inline_timing");

  it("are the first two that were recorded alike", () => {
    const later = { ...trace, id: "2" };
    expect(alike([timed, trace, later])).toEqual([trace, later]);
    expect(alike([trace, timed, later])).toEqual([trace, later]);
  });

  it("is nothing where no two were", () => {
    expect(alike([trace, timed, holding("phase")])).toBeNull();
  });
});
