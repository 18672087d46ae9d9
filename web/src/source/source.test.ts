import { describe, expect, it } from "vitest";
import { EmbeddedSource } from "./embedded";
import { answerRoute } from "./routes";
import { type Declaration, NoAnswer, replyKey } from "./source";

const KERNELS = {
  name: "kernels",
  parameters: [{ name: "by", type: "text", meaning: "", default: "name", choices: ["name", "stack"] }],
} as unknown as Declaration;
const REPLY = { answer: { rows: [{ name: "</script>" }] }, conclusions: [], rows_total: 1, labels: {} };

async function deflated(text: string): Promise<string> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(String.fromCharCode(...bytes));
}

async function block(more: object = {}): Promise<string> {
  const packed = await deflated(JSON.stringify(REPLY));
  return JSON.stringify({
    version: 1,
    recordings: [{ id: "1", name: "run" }],
    declarations: [KERNELS],
    replies: { '[["1"],"kernels",[]]': packed },
    left_out: [
      { recordings: ["1"], question: "kernels", parameters: { by: "stack" }, why: "too large", hint: "" },
    ],
    ...more,
  });
}

describe("a report's data", () => {
  it("answers what is in it, asked with or without its defaults", async () => {
    const source = new EmbeddedSource(await block());
    expect(await source.ask("1", "kernels")).toEqual(REPLY);
    expect(await source.ask("1", "kernels", { by: "name" })).toEqual(REPLY);
  });

  it("says what was left out and why, and how to ask it", async () => {
    const source = new EmbeddedSource(await block());
    const asked = source.ask("1", "kernels", { by: "stack" });
    await expect(asked).rejects.toThrow("This answer is not in this report: too large.");
    const error = await asked.catch((reason: unknown) => reason);
    expect((error as NoAnswer).hint).toBe("Ask the recording: stepscope kernels SRC --by stack");
  });

  it("picks the rows that last over a moment, and says where it does not hold all", async () => {
    const parameter = { name: "at_ns", default: null, picks: ["alloc_ns", "free_ns"] };
    const rows = [
      { bytes: 4, alloc_ns: null, free_ns: 20 },
      { bytes: 3, alloc_ns: 10, free_ns: null },
      { bytes: 2, alloc_ns: 20, free_ns: 30 },
      { bytes: 1, alloc_ns: 0, free_ns: 10 },
    ];
    const at = async (moment: number, total: number) => {
      const columns = [{ name: "alloc_ns" }, { name: "free_ns" }];
      const reply = { answer: { columns, rows }, conclusions: ["All."], rows_total: total, labels: {} };
      const source = new EmbeddedSource(
        await block({
          declarations: [{ name: "memory", parameters: [parameter] }],
          replies: { '[["1"],"memory",[]]': await deflated(JSON.stringify(reply)) },
        }),
      );
      return source.ask("1", "memory", { at_ns: moment });
    };
    const bytes = async (moment: number) => (await at(moment, 4)).answer.rows.map((row) => row.bytes);
    expect(await bytes(9)).toEqual([4, 1]);
    expect(await bytes(10)).toEqual([4, 3]);
    expect(await bytes(20)).toEqual([3, 2]);
    expect(await bytes(30)).toEqual([3]);
    expect(await at(10, 4)).toMatchObject({ conclusions: [], rows_total: 2 });
    expect((await at(10, 4)).answer.note).toBeUndefined();
    expect((await at(10, 5)).answer.note).toBe(
      "These are among the first 4 of 5 rows, which are in this report. All that were alive then: `stepscope memory SRC --at-ns 10`",
    );
  });

  it("picks the rows that have a value", async () => {
    const rows = [{ name: "aten::mm" }, { name: "aten::mm " }, { name: null }];
    const columns = [{ name: "name" }];
    const reply = { answer: { columns, rows }, said: [], rows_total: 4, labels: {} };
    const parameters = [{ name: "event", default: null, picks: ["name"] }];
    const source = new EmbeddedSource(
      await block({
        declarations: [{ name: "durations", parameters }],
        replies: { '[["1"],"durations",[]]': await deflated(JSON.stringify(reply)) },
      }),
    );
    const { answer } = await source.ask("1", "durations", { event: "aten::mm" });
    expect(answer.rows).toEqual([{ name: "aten::mm" }]);
    expect(answer.note).toBe(
      "These are among the first 3 of 4 rows, which are in this report. All of aten::mm: `stepscope durations SRC --event aten::mm`",
    );
  });

  it("tells errors as a server's are told, with commands as they are typed", async () => {
    const why = "the recording has no kernels";
    const left = { recordings: ["1"], question: "kernels", parameters: { by: "stack" }, why };
    const hints = ["record both in the same way", "stepscope record -- train.py", "sort=name:desc sorts"];
    for (const hint of hints) {
      const source = new EmbeddedSource(await block({ left_out: [{ ...left, hint }] }));
      const error = await source.ask("1", "kernels", { by: "stack" }).catch((reason: unknown) => reason);
      expect(error).toEqual(new NoAnswer(why, hint));
      expect((error as NoAnswer).message).toBe("The recording has no kernels.");
      expect((error as NoAnswer).hint).toBe(hint.replace(/^record/, "Record"));
    }
  });

  it("names both sides of a question that has two", async () => {
    const declarations = [{ ...KERNELS, name: "metrics-diff", recordings: "two" }];
    const source = new EmbeddedSource(await block({ declarations }));
    const error = await source.ask("1", "metrics-diff").catch((reason: unknown) => reason);
    expect((error as NoAnswer).hint).toBe("Ask the recording: stepscope metrics-diff BEFORE AFTER");
  });

  it("refuses data of another version", async () => {
    const text = await block({ version: 2 });
    expect(() => new EmbeddedSource(text)).toThrow(NoAnswer);
  });
});

describe("the names of answers", () => {
  it("are those that Python writes", () => {
    expect(replyKey(["1", "2"], "diff", { top: 3, by: "kernel" })).toBe(
      '[["1","2"],"diff",[["by","kernel"],["top",3]]]',
    );
  });

  it("are addresses of the server", () => {
    expect(answerRoute("gpu-trace", ["1"], { name: "a&b", id: null })).toBe(
      "api/answers/gpu-trace?recording=1&name=a%26b",
    );
  });
});
