/** Time in a tree: a flame graph, and below it the same rows, expandable or as a plain table. */
import { useMemo } from "preact/hooks";
import type { TreeRow } from "../flame/tree";
import { timeText } from "../format/units";
import type { Reply } from "../source/source";
import { useChange, usePage } from "../state/page";
import { matcher } from "../table/rows";
import { Choice } from "./choice";
import { Flame } from "./flame";
import { AnswerTable } from "./table";
import { type TreeColumn, TreeTable } from "./tree-table";

export interface TimeRow extends TreeRow {
  /** Its name in the flame graph. */
  readonly framed: string;
  readonly value: number;
  readonly part: number | null;
  /** The full text, shown when its frame is pointed at. */
  readonly words: string;
}

interface Props<R extends TimeRow> {
  readonly reply: Reply;
  readonly rows: readonly R[];
  readonly side: "device" | "host";
  readonly onDevice: boolean;
  readonly what: string;
  /** The key in the address for the row that the flame graph shows. */
  readonly focus: string;
  readonly explained: string;
  readonly columns: readonly TreeColumn<R>[];
}

export function TimeTree<R extends TimeRow>(props: Props<R>) {
  const { reply, rows, side, onDevice, what, focus, explained, columns } = props;
  const { address } = usePage();
  const change = useChange();
  const shownAs = address.state.get("as") === "table" ? "table" : "tree";
  const nodes = useMemo(
    () =>
      rows.map(({ id, framed, above, value, part }) => ({ id, name: framed, parent: above, value, part })),
    [rows],
  );
  const byId = useMemo(() => new Map(rows.map((row) => [row.id, row])), [rows]);
  const typed = address.state.get("find") ?? "";
  const matches = useMemo(() => {
    const found = typed.trim() === "" ? null : matcher(typed);
    return found === null ? null : (row: TimeRow) => found(row.full);
  }, [typed]);
  return (
    <>
      <section class="card">
        <h2>
          Flame graph{" "}
          <span class="plain">
            {side} time {explained}
          </span>
          {onDevice && (
            <Choice
              name="time"
              options={["device", "host"]}
              chosen={side}
              onChoose={(chosen) => change({ time: chosen === "host" ? "host" : null })}
            />
          )}
        </h2>
        <Flame
          nodes={nodes}
          label={`Flame graph by ${side} time`}
          words={(node) => byId.get(node.id)?.words ?? ""}
          pale={matches === null ? null : (node) => !matches(byId.get(node.id) as R)}
          focus={address.state.get(focus) ?? null}
          onFocus={(id) => change({ [focus]: id })}
        />
      </section>
      <div class="tools">
        <Choice
          name="show as"
          options={["tree", "table"]}
          chosen={shownAs}
          onChoose={(chosen) => change({ as: chosen === "table" ? "table" : null })}
        />
        {shownAs === "tree" && (
          <label>
            <span class="hidden">Search the tree</span>
            <input
              type="search"
              placeholder="search: words, *glob* or /regex/"
              value={typed}
              onInput={(event) => change({ find: event.currentTarget.value })}
            />
          </label>
        )}
      </div>
      {shownAs === "tree" ? (
        <TreeTable rows={rows} label={`${what}s as a tree`} head={what} columns={columns} matches={matches} />
      ) : (
        <AnswerTable reply={reply} />
      )}
    </>
  );
}

export function timeOf(value: number | null | undefined): string | null {
  return value === null || value === undefined ? null : timeText(value);
}
