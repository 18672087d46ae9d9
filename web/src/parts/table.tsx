/** The table of any answer: sort, filter, choose columns, and all values of one row. */
import { useMemo, useState } from "preact/hooks";
import { countText, NOT_MEASURED, valueText } from "../format/units";
import type { Reply, Row } from "../source/source";
import { useChange, useDeclaration, usePage } from "../state/page";
import { type Column, columnsOf, heads, isMeasured, isNumeric, shownAtFirst } from "../table/columns";
import { filtered, matcher, nextSort, parseSort, sorted, sortText } from "../table/rows";
import { Words } from "./words";

const PAGE_ROWS = 100;

interface Props {
  readonly reply: Reply;
  /** Before the names of this table's state in the address, where a view has several tables. */
  readonly prefix?: string;
}

export function AnswerTable({ reply, prefix = "" }: Props) {
  const { answer } = reply;
  const declared = useDeclaration(answer.question);
  const { address } = usePage();
  const change = useChange();
  const [most, setMost] = useState(PAGE_ROWS);
  const [open, setOpen] = useState<number | null>(null);
  const columns = useMemo(() => columnsOf(answer, declared), [answer, declared]);
  const titles = useMemo(() => heads(columns), [columns]);
  const labels = useMemo(
    () => new Map(Object.entries(reply.labels).map(([name, pairs]) => [name, new Map(pairs)])),
    [reply],
  );
  const chosen = address.state.get(`${prefix}columns`);
  const shown = useMemo(
    () => (chosen === undefined ? shownAtFirst(columns, answer.rows) : new Set(chosen.split(","))),
    [chosen, columns, answer],
  );
  const sort = parseSort(address.state.get(`${prefix}sort`));
  const typed = address.state.get(`${prefix}find`) ?? "";
  const matches = matcher(typed);
  const places = useMemo(() => {
    const found = filtered(answer.rows, columns, matches ?? (() => true));
    return sorted(answer.rows, found, sort);
  }, [answer, columns, typed, sort?.column, sort?.descending]);
  const visible = columns.flatMap((column, index) =>
    shown.has(column.name) ? [{ column, title: titles[index] ?? column.name }] : [],
  );

  const choose = (name: string, on: boolean) => {
    const names = columns.map((one) => one.name).filter((one) => (one === name ? on : shown.has(one)));
    change({ [`${prefix}columns`]: names.join(",") });
  };

  return (
    <div class="answer-table">
      <div class="tools">
        <label>
          <span class="hidden">Filter rows</span>
          <input
            type="search"
            placeholder="filter: words, *glob* or /regex/"
            value={typed}
            onInput={(event) => change({ [`${prefix}find`]: event.currentTarget.value })}
          />
        </label>
        {matches === null && <span class="severe">no regular expression</span>}
        <span class="muted" role="status">
          {places.length === answer.rows.length
            ? `${countText(places.length)} rows`
            : `${countText(places.length)} of ${countText(answer.rows.length)} rows`}
        </span>
        <details class="menu">
          <summary>Columns</summary>
          <div>
            {columns.map((column, index) => (
              <label key={column.name} title={column.meaning}>
                <input
                  type="checkbox"
                  checked={shown.has(column.name)}
                  onChange={(event) => choose(column.name, event.currentTarget.checked)}
                />{" "}
                {titles[index]}
              </label>
            ))}
          </div>
        </details>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class="scroll" tabIndex={0} aria-label={answer.asks}>
        <table>
          <thead>
            <tr>
              {visible.map(({ column, title }) => (
                <th
                  key={column.name}
                  scope="col"
                  class={isNumeric(column) ? "number" : ""}
                  title={column.meaning}
                  aria-sort={
                    sort?.column === column.name ? (sort.descending ? "descending" : "ascending") : "none"
                  }
                >
                  <button
                    type="button"
                    onClick={() => {
                      const next = nextSort(sort, column);
                      change({ [`${prefix}sort`]: next === null ? null : sortText(next) });
                    }}
                  >
                    {title}
                    <span aria-hidden="true" class="arrow">
                      {sort?.column === column.name ? (sort.descending ? "▼" : "▲") : ""}
                    </span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {places.slice(0, most).map((place) => {
              const row = answer.rows[place] as Row;
              return [
                <tr key={place} class={open === place ? "open" : ""}>
                  {visible.map(({ column }, index) => (
                    <Cell
                      key={column.name}
                      column={column}
                      row={row}
                      label={labels.get(column.name)?.get(String(row[column.name]))}
                      depth={index === 0 && sort === null ? Number(row.depth ?? 0) : 0}
                      onOpen={index === 0 ? () => setOpen(open === place ? null : place) : undefined}
                      expanded={open === place}
                    />
                  ))}
                </tr>,
                open === place && (
                  <tr key={`${place} values`} class="values">
                    <td colSpan={visible.length}>
                      <RowValues columns={columns} titles={titles} row={row} />
                    </td>
                  </tr>
                ),
              ];
            })}
          </tbody>
        </table>
      </section>
      {places.length > most && (
        <p class="more">
          <button type="button" onClick={() => setMost(most + 10 * PAGE_ROWS)}>
            Show more: {countText(places.length - most)} rows are not shown
          </button>
        </p>
      )}
    </div>
  );
}

interface CellProps {
  readonly column: Column;
  readonly row: Row;
  readonly label: string | undefined;
  /** How deep in a tree the row is; 0 where rows are in another order. */
  readonly depth: number;
  readonly onOpen: (() => void) | undefined;
  readonly expanded: boolean;
}

function Cell({ column, row, label, depth, onOpen, expanded }: CellProps) {
  const value = row[column.name];
  const full = valueText(value, column);
  const text = label ?? full;
  const classes = [
    isNumeric(column) ? "number" : column.type,
    isMeasured(value) ? "" : "unmeasured",
    column.unit === "ratio" && typeof value === "number" ? "ratio" : "",
  ];
  const bar =
    column.unit === "ratio" && typeof value === "number"
      ? { "--share": `${100 * Math.min(1, Math.max(0, value))}%` }
      : {};
  const title = isMeasured(value) ? full : "not measured";
  return (
    <td class={classes.filter(Boolean).join(" ")} style={bar} title={title.length > 12 ? title : undefined}>
      {onOpen === undefined ? (
        column.advises && typeof value === "string" ? (
          <Words text={text} />
        ) : (
          text
        )
      ) : (
        <button
          type="button"
          class="open-row"
          style={depth > 0 ? { marginLeft: `${14 * depth}px` } : {}}
          aria-expanded={expanded}
          onClick={onOpen}
        >
          {text === "" ? NOT_MEASURED : text}
        </button>
      )}
    </td>
  );
}

interface RowValuesProps {
  readonly columns: readonly Column[];
  readonly titles: readonly string[];
  readonly row: Row;
}

/** All values of a row, the hidden columns' too, as they are: a long name in full. */
function RowValues({ columns, titles, row }: RowValuesProps) {
  return (
    <dl>
      {columns.map((column, index) => (
        <div key={column.name}>
          <dt title={column.meaning}>{titles[index]}</dt>
          <dd>{valueText(row[column.name], column)}</dd>
        </div>
      ))}
    </dl>
  );
}
