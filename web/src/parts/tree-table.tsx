/** A tree as a table: rows that open; rows that match a search, with their ancestors. */
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { ancestorsOf, depthAtFirst, type TreeRow, visibleRows } from "../flame/tree";
import { plain } from "../format/cut";
import { NOT_MEASURED } from "../format/units";

export interface TreeColumn<R> {
  readonly head: ComponentChildren;
  readonly number?: boolean;
  /** The contents of a cell; null if it was not measured. */
  readonly cell: (row: R) => ComponentChildren;
}

interface Props<R extends TreeRow> {
  readonly rows: readonly R[];
  readonly label: string;
  /** The heading above the rows' names. */
  readonly head: string;
  readonly columns: readonly TreeColumn<R>[];
  /** Whether a row matches the search; null without a search. */
  readonly matches: ((row: R) => boolean) | null;
}

const MOST_ROWS = 500;

/** Sizes of a row in pixels; deep rows are indented by less, so that there is room for their names. */
function indent(depth: number): number {
  return 8 + 12 * Math.min(depth, 8) + 4 * Math.max(0, Math.min(depth, 60) - 8);
}

export function TreeTable<R extends TreeRow>({ rows, label, head, columns, matches }: Props<R>) {
  const parents = useMemo(() => new Set(rows.map((row) => row.above)), [rows]);
  const depth = useMemo(() => depthAtFirst(rows), [rows]);
  const [turned, setTurned] = useState<ReadonlySet<string>>(new Set());
  const found = useMemo(
    () => (matches === null ? null : ancestorsOf(rows, new Set(rows.filter(matches).map((one) => one.id)))),
    [rows, matches],
  );
  const isOpen = (row: R) =>
    (found === null ? row.depth < depth : found.above.has(row.id)) !== turned.has(row.id);
  const shown = visibleRows(rows, isOpen).filter((row) => found === null || found.kept.has(row.id));
  const turn = (id: string) => {
    const next = new Set(turned);
    if (!next.delete(id)) next.add(id);
    setTurned(next);
  };
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class="scroll" tabIndex={0} aria-label={label}>
        <table class="tree">
          <thead>
            <tr>
              <th scope="col">{head}</th>
              {columns.map((column, place) => (
                <th key={place} scope="col" class={column.number ? "number" : ""}>
                  {column.head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.slice(0, MOST_ROWS).map((row) => (
              <tr key={row.id} class={matches?.(row) ? "found" : ""}>
                <th scope="row" style={{ paddingLeft: `${indent(row.depth)}px` }} title={row.full}>
                  {parents.has(row.id) ? (
                    <button
                      type="button"
                      class="twist"
                      aria-expanded={isOpen(row)}
                      onClick={() => turn(row.id)}
                    >
                      <span aria-hidden="true">{isOpen(row) ? "▾" : "▸"}</span> {plain(row.name)}
                    </button>
                  ) : (
                    <span class="leaf">{plain(row.name)}</span>
                  )}
                </th>
                {columns.map((column, place) => {
                  const cell = column.cell(row);
                  const classes = [column.number ? "number" : "", cell === null ? "unmeasured" : ""];
                  return (
                    <td key={place} class={classes.join(" ")}>
                      {cell ?? NOT_MEASURED}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {shown.length > MOST_ROWS && (
        <p class="note">
          {shown.length - MOST_ROWS} more rows are open than are shown: close some, or search.
        </p>
      )}
    </>
  );
}
