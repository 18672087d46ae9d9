import { describe, expect, it } from "vitest";
import { commandLink } from "./command";

describe("a command in a text", () => {
  it("leads to its question with its options", () => {
    expect(commandLink("stepscope rank-overview SRC --by-rank --measure idle --rank=3 --json")).toEqual({
      question: "rank-overview",
      state: { by_rank: "true", measure: "idle", rank: "3" },
    });
    expect(commandLink("stepscope kernels SRC --name 'aten::mm'")?.state).toEqual({ name: "aten::mm" });
  });

  it("is no other text", () => {
    expect(commandLink("SELECT 1")).toBeNull();
  });
});
