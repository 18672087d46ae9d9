/** Samples of the host by function, and as a tree of calls with a flame graph. */
import { useMemo } from "preact/hooks";
import { countText, NOT_MEASURED, ratioText } from "../format/units";
import { AnswerChart } from "../parts/answer-chart";
import { Answered } from "../parts/answered";
import { TimeTree, timeOf } from "../parts/time-tree";
import type { Reply, Row } from "../source/source";
import { useAnswer } from "../state/page";
import { QuestionHead, QuestionRows, useParameters } from "./generic";

export function HotspotsView() {
  const asked = useAnswer("hotspots", useParameters("hotspots"));
  return (
    <>
      <QuestionHead question="hotspots" />
      <Answered asked={asked}>
        {(reply: Reply) =>
          reply.answer.columns.some((one) => one.name === "node") ? (
            <Samples reply={reply} />
          ) : (
            <>
              <AnswerChart reply={reply} />
              <QuestionRows reply={reply} />
            </>
          )
        }
      </Answered>
    </>
  );
}

function Samples({ reply }: { readonly reply: Reply }) {
  const { rows } = reply.answer;
  const number = (row: Row, name: string) => (typeof row[name] === "number" ? (row[name] as number) : null);
  const timed = rows.some((row) => number(row, "total_ns") !== null);
  const tree = useMemo(
    () =>
      rows.map((row) => {
        const name = String(row.function ?? NOT_MEASURED);
        const where = [row.file, row.line].filter((one) => one !== null && one !== undefined).join(":");
        return {
          id: String(row.node),
          name,
          full: where === "" ? name : `${name} ${where}`,
          above: row.parent === null || row.parent === undefined ? null : String(row.parent),
          depth: number(row, "depth") ?? 0,
          framed: name,
          value: number(row, timed ? "total_ns" : "total_samples") ?? 0,
          part: null,
          words:
            `${name}${where === "" ? "" : ` (${where})`}: ${timeOf(number(row, "total_ns")) ?? NOT_MEASURED}, ` +
            `${timeOf(number(row, "self_ns")) ?? NOT_MEASURED} of its own`,
          row,
        };
      }),
    [rows, timed],
  );
  const share = (row: Row, name: string) => {
    const ratio = number(row, name);
    return ratio === null ? null : ratioText(ratio);
  };
  const samples = (row: Row) => {
    const count = number(row, "self_samples");
    return count === null ? null : countText(count);
  };
  return (
    <TimeTree
      reply={reply}
      rows={tree}
      side="host"
      onDevice={false}
      what="function"
      focus="call"
      explained="of functions, by their calls"
      columns={[
        { head: "total", number: true, cell: ({ row }) => timeOf(number(row, "total_ns")) },
        { head: "share", number: true, cell: ({ row }) => share(row, "total_ratio") },
        { head: "self", number: true, cell: ({ row }) => timeOf(number(row, "self_ns")) },
        { head: "share", number: true, cell: ({ row }) => share(row, "self_ratio") },
        { head: "samples", number: true, cell: ({ row }) => samples(row) },
      ]}
    />
  );
}
