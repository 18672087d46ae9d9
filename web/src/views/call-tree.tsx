/** Calls by their callers: from the top, from each function up to its callers, or by thread. */
import { useMemo } from "preact/hooks";
import { countText, NOT_MEASURED, ratioText } from "../format/units";
import { Answered } from "../parts/answered";
import { TimeTree, timeOf } from "../parts/time-tree";
import type { TreeColumn } from "../parts/tree-table";
import type { Reply, RowOf } from "../source/source";
import { useAnswer, usePage } from "../state/page";
import { QuestionHead, useParameters } from "./generic";

type Call = RowOf<"call-tree">;

const ON_DEVICE: readonly TreeColumn<{ readonly row: Call }>[] = [
  { head: "device total", number: true, cell: ({ row }) => timeOf(row.device_total_ns) },
  { head: "share", number: true, cell: ({ row }) => share(row.device_share_ratio) },
  { head: "device self", number: true, cell: ({ row }) => timeOf(row.device_self_ns) },
];

export function CallTreeView() {
  const asked = useAnswer("call-tree", useParameters("call-tree"));
  return (
    <>
      <QuestionHead question="call-tree" />
      <Answered asked={asked}>{(reply) => <Calls reply={reply} />}</Answered>
    </>
  );
}

function Calls({ reply }: { readonly reply: Reply<Call> }) {
  const { rows } = reply.answer;
  const { address } = usePage();
  const onDevice = rows.some((row) => row.device_total_ns !== null && row.device_total_ns !== undefined);
  const side = onDevice && address.state.get("time") === "device" ? "device" : "host";
  const total = (row: Call) => (side === "device" ? row.device_total_ns : row.host_total_ns);
  const upwards = address.state.get("by") === "bottom-up";
  const tree = useMemo(
    () =>
      rows.map((row) => ({
        id: String(row.id),
        name: row.name ?? "",
        full: row.name ?? "",
        above: row.parent === null || row.parent === undefined ? null : String(row.parent),
        depth: row.depth ?? 0,
        framed: row.name ?? "",
        value: total(row) ?? 0,
        part: null,
        words:
          `${row.name} (${row.kind}): ${timeOf(row.host_total_ns) ?? NOT_MEASURED} on the host, ` +
          `${timeOf(row.host_self_ns) ?? NOT_MEASURED} of its own; ` +
          `${timeOf(row.device_total_ns) ?? NOT_MEASURED} on the device` +
          (row.calls === null || row.calls === undefined ? "" : `; ${countText(row.calls)} calls`),
        row,
      })),
    [rows, side],
  );
  return (
    <TimeTree
      reply={reply}
      rows={tree}
      side={side}
      onDevice={onDevice}
      what="call"
      focus="call"
      explained={
        upwards
          ? "of functions themselves, with their callers below them"
          : "of each call and all that it leads to"
      }
      columns={[
        { head: "kind", cell: ({ row }) => row.kind ?? "" },
        { head: "calls", number: true, cell: ({ row }) => (row.calls == null ? null : countText(row.calls)) },
        { head: "host total", number: true, cell: ({ row }) => timeOf(row.host_total_ns) },
        { head: "share", number: true, cell: ({ row }) => share(row.host_share_ratio) },
        { head: "host self", number: true, cell: ({ row }) => timeOf(row.host_self_ns) },
        ...(onDevice ? ON_DEVICE : []),
      ]}
    />
  );
}

function share(ratio: number | null | undefined): string | null {
  return ratio === null || ratio === undefined ? null : ratioText(ratio);
}
