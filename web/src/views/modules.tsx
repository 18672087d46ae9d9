/** The model as a tree: a flame graph of device time above, forward and backward beside each module. */
import { useMemo } from "preact/hooks";
import { countText, NOT_MEASURED, ratioText, timeText } from "../format/units";
import { Answered } from "../parts/answered";
import { TimeTree, timeOf } from "../parts/time-tree";
import type { Reply, RowOf } from "../source/source";
import { useAnswer, usePage } from "../state/page";
import { QuestionHead, useParameters } from "./generic";

type Module = RowOf<"modules">;

export function ModulesView() {
  const asked = useAnswer("modules", useParameters("modules"));
  return (
    <>
      <QuestionHead question="modules" />
      <Answered asked={asked}>{(reply) => <Modules reply={reply} />}</Answered>
    </>
  );
}

/** Device times if there are any, else the host's. */
interface Side {
  readonly name: "device" | "host";
  readonly total: (row: Module) => number | null;
  readonly self: (row: Module) => number | null;
  readonly forward: (row: Module) => number | null;
  readonly backward: (row: Module) => number | null;
}

const DEVICE: Side = {
  name: "device",
  total: (row) => row.device_total_ns ?? null,
  self: (row) => row.device_self_ns ?? null,
  forward: (row) => row.forward_device_ns ?? null,
  backward: (row) => row.backward_device_ns ?? null,
};
const HOST: Side = {
  name: "host",
  total: (row) => row.host_total_ns ?? null,
  self: (row) => row.host_self_ns ?? null,
  forward: (row) => row.forward_host_ns ?? null,
  backward: (row) => row.backward_host_ns ?? null,
};

function Modules({ reply }: { readonly reply: Reply<Module> }) {
  const { rows } = reply.answer;
  const { address } = usePage();
  const onDevice = rows.some((row) => row.device_total_ns !== null && row.device_total_ns !== undefined);
  const side = onDevice && address.state.get("time") !== "host" ? DEVICE : HOST;
  const tree = useMemo(
    () =>
      rows.map((row) => {
        const value = side.total(row) ?? 0;
        return {
          id: row.path ?? "",
          name: row.name ?? "",
          full: row.path ?? "",
          above: row.parent_path ?? null,
          depth: row.depth ?? 0,
          framed: row.class && row.class !== row.name ? `${row.name} (${row.class})` : (row.name ?? ""),
          value,
          part: value > 0 ? (side.backward(row) ?? 0) / value : null,
          words: wordsOf(row, side),
          row,
        };
      }),
    [rows, side],
  );
  const top = Math.max(...rows.map((row) => side.total(row) ?? 0), 1);
  const wide = (ns: number | null) => ({ width: `${(100 * (ns ?? 0)) / top}%` });
  return (
    <TimeTree
      reply={reply}
      rows={tree}
      side={side.name}
      onDevice={onDevice}
      what="module"
      focus="module"
      explained="of each module and all below it; the line below a name is the backward's part"
      columns={[
        { head: "class", cell: ({ row }) => row.class ?? "" },
        { head: "calls", number: true, cell: ({ row }) => (row.calls == null ? null : countText(row.calls)) },
        {
          head: <span class="hidden">forward and backward as bars</span>,
          cell: ({ row }) => (
            <span class="halves" aria-hidden="true">
              <span class="forward" style={wide(side.forward(row))} />
              <span class="backward" style={wide(side.backward(row))} />
            </span>
          ),
        },
        { head: `${side.name} total`, number: true, cell: ({ row }) => timeOf(side.total(row)) },
        { head: "share", number: true, cell: ({ row }) => shareOf(side.total(row), side, row, rows) },
        { head: `${side.name} self`, number: true, cell: ({ row }) => timeOf(side.self(row)) },
        { head: headOf("forward"), number: true, cell: ({ row }) => timeOf(side.forward(row)) },
        { head: headOf("backward"), number: true, cell: ({ row }) => timeOf(side.backward(row)) },
      ]}
    />
  );
}

/** The heading above a direction's times, with its colour in the bars beside them. */
function headOf(direction: "forward" | "backward") {
  return (
    <span class="held">
      <span class={`swatch ${direction}`} /> {direction}
    </span>
  );
}

function wordsOf(row: Module, side: Side): string {
  const time = (value: number | null) => (value === null ? NOT_MEASURED : timeText(value));
  return (
    `${row.path} (${row.class ?? "no class"}): ${time(side.total(row))} on the ${side.name}, ` +
    `${time(side.self(row))} of its own; forward ${time(side.forward(row))}, backward ${time(side.backward(row))}`
  );
}

function shareOf(value: number | null, side: Side, row: Module, rows: readonly Module[]): string | null {
  if (side.name === "device") {
    return row.share_ratio === null || row.share_ratio === undefined ? null : ratioText(row.share_ratio);
  }
  const all = rows.reduce((sum, one) => sum + (one.parent_path ? 0 : (side.total(one) ?? 0)), 0);
  return value === null || all === 0 ? null : ratioText(value / all);
}
