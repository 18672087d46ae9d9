/** The model as a tree: a flame graph of device time above, forward and backward beside each module. */
import { useMemo, useState } from "preact/hooks";
import type { Node } from "../flame/layout";
import { countText, NOT_MEASURED, ratioText, timeText } from "../format/units";
import { Answered } from "../parts/answered";
import { Flame } from "../parts/flame";
import { AnswerTable } from "../parts/table";
import type { Reply, RowOf } from "../source/source";
import { useAnswer, useChange, usePage } from "../state/page";
import { QuestionHead } from "./generic";

type Module = RowOf<"modules">;

const ROWS_AT_FIRST = 30;

export function ModulesView() {
  const asked = useAnswer("modules");
  return (
    <>
      <QuestionHead question="modules" />
      <Answered asked={asked}>{(reply) => <Modules reply={reply} />}</Answered>
    </>
  );
}

/** Device times where there are any, else the host's. */
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
  const change = useChange();
  const onDevice = rows.some((row) => row.device_total_ns !== null && row.device_total_ns !== undefined);
  const side = onDevice && address.state.get("time") !== "host" ? DEVICE : HOST;
  const nodes = useMemo(() => rows.map((row) => nodeOf(row, side)), [rows, side]);
  const tab = address.state.get("as") === "table" ? "table" : "tree";
  const byId = useMemo(() => new Map(rows.map((row) => [row.path ?? "", row])), [rows]);
  return (
    <>
      <section class="card">
        <h2>
          Flame graph{" "}
          <span class="plain">
            {side.name} time of each module and all below it; the line below a name is the backward's part
          </span>
          {onDevice && (
            <fieldset class="segments">
              <legend>time</legend>
              {(["device", "host"] as const).map((name) => (
                <label key={name}>
                  <input
                    type="radio"
                    name="time"
                    checked={side.name === name}
                    onChange={() => change({ time: name === "host" ? "host" : null })}
                  />
                  <span>{name}</span>
                </label>
              ))}
            </fieldset>
          )}
        </h2>
        <Flame
          nodes={nodes}
          label={`Flame graph of modules by ${side.name} time`}
          words={(node) => wordsOf(byId.get(node.id), side)}
          focus={address.state.get("module") ?? null}
          onFocus={(id) => change({ module: id })}
        />
      </section>
      <fieldset class="segments">
        <legend>show as</legend>
        {(["tree", "table"] as const).map((name) => (
          <label key={name}>
            <input
              type="radio"
              name="as"
              checked={tab === name}
              onChange={() => change({ as: name === "table" ? "table" : null })}
            />
            <span>{name}</span>
          </label>
        ))}
      </fieldset>
      {tab === "tree" ? <Tree rows={rows} side={side} /> : <AnswerTable reply={reply} />}
    </>
  );
}

function nodeOf(row: Module, side: Side): Node {
  const value = side.total(row) ?? 0;
  return {
    id: row.path ?? "",
    name: row.class && row.class !== row.name ? `${row.name} (${row.class})` : (row.name ?? ""),
    parent: row.parent_path ?? null,
    value,
    part: value > 0 ? (side.backward(row) ?? 0) / value : null,
  };
}

function wordsOf(row: Module | undefined, side: Side): string {
  if (row === undefined) return "";
  const time = (value: number | null) => (value === null ? NOT_MEASURED : timeText(value));
  return (
    `${row.path} (${row.class ?? "no class"}): ${time(side.total(row))} on the ${side.name}, ` +
    `${time(side.self(row))} of its own; forward ${time(side.forward(row))}, backward ${time(side.backward(row))}`
  );
}

function Tree({ rows, side }: { readonly rows: readonly Module[]; readonly side: Side }) {
  const parents = useMemo(() => new Set(rows.map((row) => row.parent_path)), [rows]);
  const [turned, setTurned] = useState<ReadonlySet<string>>(new Set());
  const depth = useMemo(() => depthAtFirst(rows), [rows]);
  const isOpen = (row: Module) => (row.depth ?? 0) < depth !== turned.has(row.path ?? "");
  const shown: Module[] = [];
  const open = new Set<string>();
  for (const row of rows) {
    if (row.parent_path && !open.has(row.parent_path)) continue;
    shown.push(row);
    if (isOpen(row)) open.add(row.path ?? "");
  }
  const turn = (path: string) => {
    const next = new Set(turned);
    if (!next.delete(path)) next.add(path);
    setTurned(next);
  };
  const top = Math.max(...rows.map((row) => side.total(row) ?? 0), 1);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="scroll" tabIndex={0} aria-label="Modules as a tree">
      <table class="tree">
        <thead>
          <tr>
            <th scope="col">module</th>
            <th scope="col">class</th>
            <th scope="col" class="number">
              calls
            </th>
            <th scope="col">
              <span class="swatch forward" /> forward <span class="swatch backward" /> backward
            </th>
            <th scope="col" class="number">
              {side.name} total
            </th>
            <th scope="col" class="number">
              share
            </th>
            <th scope="col" class="number">
              {side.name} self
            </th>
            <th scope="col" class="number">
              forward
            </th>
            <th scope="col" class="number">
              backward
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => {
            const path = row.path ?? "";
            return (
              <tr key={path}>
                <th scope="row" style={{ paddingLeft: `${8 + 14 * (row.depth ?? 0)}px` }} title={path}>
                  {parents.has(path) ? (
                    <button
                      type="button"
                      class="twist"
                      aria-expanded={open.has(path)}
                      onClick={() => turn(path)}
                    >
                      <span aria-hidden="true">{open.has(path) ? "▾" : "▸"}</span> {row.name}
                    </button>
                  ) : (
                    <span class="leaf">{row.name}</span>
                  )}
                </th>
                <td>{row.class ?? ""}</td>
                <Figure text={row.calls === null || row.calls === undefined ? null : countText(row.calls)} />
                <td>
                  <span class="halves" aria-hidden="true">
                    <span class="forward" style={{ width: `${(100 * (side.forward(row) ?? 0)) / top}%` }} />
                    <span class="backward" style={{ width: `${(100 * (side.backward(row) ?? 0)) / top}%` }} />
                  </span>
                </td>
                <Figure text={timeOf(side.total(row))} />
                <Figure text={shareOf(side.total(row), side, row, rows)} />
                <Figure text={timeOf(side.self(row))} />
                <Figure text={timeOf(side.forward(row))} />
                <Figure text={timeOf(side.backward(row))} />
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

function Figure({ text }: { readonly text: string | null }) {
  return <td class={text === null ? "number unmeasured" : "number"}>{text ?? NOT_MEASURED}</td>;
}

function timeOf(value: number | null): string | null {
  return value === null ? null : timeText(value);
}

function shareOf(value: number | null, side: Side, row: Module, rows: readonly Module[]): string | null {
  if (side.name === "device") {
    return row.share_ratio === null || row.share_ratio === undefined ? null : ratioText(row.share_ratio);
  }
  const all = rows.reduce((sum, one) => sum + (one.parent_path ? 0 : (side.total(one) ?? 0)), 0);
  return value === null || all === 0 ? null : ratioText(value / all);
}

/** As deep as the tree is open at first: whole levels, while they fit on a screen. */
function depthAtFirst(rows: readonly Module[]): number {
  const deepest = Math.max(0, ...rows.map((row) => row.depth ?? 0));
  for (let depth = 0; depth < deepest; depth += 1) {
    if (rows.filter((row) => (row.depth ?? 0) <= depth + 1).length > ROWS_AT_FIRST) return Math.max(depth, 1);
  }
  return deepest;
}
