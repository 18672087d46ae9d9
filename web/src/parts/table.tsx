/** The table of any answer: sort, filter, group, choose columns, copy, page through it, show a complete row. */
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { plain } from "../format/cut";
import { countText, NOT_MEASURED, ratioText, valueText } from "../format/units";
import type { Reply, Row } from "../source/source";
import { useChange, useDeclaration, useLink, usePage } from "../state/page";
import { type Column, columnsOf, heads, isMeasured, isNumeric, shownAtFirst } from "../table/columns";
import { type Fit, fitted } from "../table/fit";
import { type Group, grouped, shareColumn } from "../table/groups";
import { filtered, matcher, nextSort, parseSort, sorted, sortText } from "../table/rows";
import { spotOf, spotState } from "../timeline/address";
import { RowDurations } from "./durations";
import { TableTools } from "./table-tools";
import { useWidth } from "./width";
import { Words } from "./words";

const PAGE_ROWS = 100;
/** Width of a table's side lines and of a scrollbar beside its rows, in pixels. */
const BORDER = 18;
/** Characters of a head that fit on one line; answers.css has its width. */
const LONG_HEAD = 15;

interface Props {
  readonly reply: Reply;
  /** Prefix of this table's state in the address, if a view has several tables. */
  readonly prefix?: string;
}

export function AnswerTable({ reply, prefix = "" }: Props) {
  const { answer } = reply;
  const declared = useDeclaration(answer.question);
  const { address } = usePage();
  const change = useChange();
  const [open, setOpen] = useState<number | null>(null);
  const [closed, setClosed] = useState<ReadonlySet<unknown>>(new Set());
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
  const by = columns.find((one) => one.name === address.state.get(`${prefix}group`));
  const groups = useMemo(
    () => (by === undefined ? null : grouped(answer.rows, places, by.name, shareColumn(columns))),
    [answer, places, columns, by],
  );
  const lines: readonly (number | Group)[] =
    groups === null ? places : groups.flatMap((one) => [one, ...(closed.has(one.value) ? [] : one.places)]);
  const pages = Math.max(1, Math.ceil(lines.length / PAGE_ROWS));
  const page = Math.min(pages, Math.max(1, Number(address.state.get(`${prefix}page`)) || 1));
  const wanted = columns.flatMap((column, index) =>
    shown.has(column.name) ? [{ column, title: titles[index] ?? column.name }] : [],
  );
  const { place, table, fit } = useFit([answer, labels, shown, by, page], chosen === undefined);
  const visible = wanted.slice(0, fit?.kept);
  const scroll =
    fit === null
      ? { class: "scroll", style: {} }
      : { class: "scroll tight", style: { "--text": `${fit.text}px` } };
  const set = (entry: string, value: string | null) =>
    change({ [`${prefix}${entry}`]: value, [`${prefix}page`]: null });
  const turn = (group: Group) => {
    const next = new Set(closed);
    if (!next.delete(group.value)) next.add(group.value);
    setClosed(next);
  };

  return (
    <div class="answer-table" ref={place}>
      <TableTools
        columns={columns}
        titles={titles}
        rows={answer.rows}
        places={places}
        shown={new Set(visible.map((one) => one.column.name))}
        typed={typed}
        isExpression={matches !== null}
        by={by?.name ?? ""}
        set={set}
      />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class={scroll.class} style={scroll.style} tabIndex={0} aria-label={answer.asks || "Rows"}>
        <table ref={table}>
          <thead>
            <tr>
              {visible.map(({ column, title }) => (
                <th
                  key={column.name}
                  scope="col"
                  class={isNumeric(column) ? "number" : column.type}
                  title={column.meaning}
                  aria-sort={
                    sort?.column === column.name ? (sort.descending ? "descending" : "ascending") : "none"
                  }
                >
                  <button
                    type="button"
                    onClick={() => {
                      const next = nextSort(sort, column);
                      set("sort", next === null ? null : sortText(next));
                    }}
                  >
                    <span class={title.length > LONG_HEAD ? "head long" : "head"}>
                      {title}
                      {sort?.column === column.name && (
                        <span aria-hidden="true" class="arrow">
                          {sort.descending ? "▼" : "▲"}
                        </span>
                      )}
                    </span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {lines.slice((page - 1) * PAGE_ROWS, page * PAGE_ROWS).map((line) => {
              if (typeof line !== "number") {
                return (
                  <tr key={`group ${line.value}`} class="group">
                    <th scope="rowgroup" colSpan={visible.length}>
                      <button
                        type="button"
                        class="twist"
                        aria-expanded={!closed.has(line.value)}
                        onClick={() => turn(line)}
                      >
                        <span aria-hidden="true">{closed.has(line.value) ? "▸" : "▾"}</span>{" "}
                        {valueText(
                          labels.get(by?.name ?? "")?.get(String(line.value)) ?? line.value,
                          by ?? { unit: "" },
                        )}{" "}
                        <span class="plain">
                          {countText(line.places.length)} {line.places.length === 1 ? "row" : "rows"}
                          {line.share !== null && `, ${ratioText(line.share)}`}
                        </span>
                      </button>
                    </th>
                  </tr>
                );
              }
              const row = answer.rows[line] as Row;
              return [
                <tr key={line} class={open === line ? "open" : ""}>
                  {visible.map(({ column }, index) => (
                    <Cell
                      key={column.name}
                      column={column}
                      row={row}
                      label={labels.get(column.name)?.get(String(row[column.name]))}
                      depth={index === 0 && sort === null && groups === null ? Number(row.depth ?? 0) : 0}
                      onOpen={index === 0 ? () => setOpen(open === line ? null : line) : undefined}
                      expanded={open === line}
                    />
                  ))}
                </tr>,
                open === line && (
                  <tr key={`${line} values`} class="values">
                    <td colSpan={visible.length}>
                      <RowDurations question={answer.question} row={row} />
                      <RowValues question={answer.question} columns={columns} titles={titles} row={row} />
                    </td>
                  </tr>
                ),
              ];
            })}
          </tbody>
        </table>
      </section>
      {pages > 1 && (
        <p class="pages">
          <button
            type="button"
            disabled={page === 1}
            onClick={() => change({ [`${prefix}page`]: String(page - 1) })}
          >
            Previous
          </button>
          <span role="status">
            Page {countText(page)} of {countText(pages)}
          </span>
          <button
            type="button"
            disabled={page === pages}
            onClick={() => change({ [`${prefix}page`]: String(page + 1) })}
          >
            Next
          </button>
        </p>
      )}
    </div>
  );
}

/** How the table fits its width; measured in its full form before it is visible. */
function useFit(drawn: readonly unknown[], mayLeaveOut: boolean) {
  const [place, width] = useWidth();
  const table = useRef<HTMLTableElement>(null);
  const [fit, setFit] = useState<Fit | null>(null);
  const [measured, setMeasured] = useState<readonly unknown[]>([]);
  const now = [...drawn, mayLeaveOut, width];
  const isMeasured = measured.length === now.length && now.every((one, index) => one === measured[index]);
  useLayoutEffect(() => {
    if (isMeasured || width === 0 || table.current === null) return;
    const heads = [...table.current.querySelectorAll("thead th")];
    const columns = heads.map((one) => ({
      width: one.getBoundingClientRect().width,
      isText: one.classList.contains("text"),
    }));
    setFit(fitted(columns, width - BORDER, mayLeaveOut));
    setMeasured(now);
  });
  return { place, table, fit: isMeasured ? fit : null };
}

interface CellProps {
  readonly column: Column;
  readonly row: Row;
  readonly label: string | undefined;
  /** The row's depth in a tree; 0 if rows are in another order. */
  readonly depth: number;
  readonly onOpen: (() => void) | undefined;
  readonly expanded: boolean;
}

function Cell({ column, row, label, depth, onOpen, expanded }: CellProps) {
  const value = row[column.name];
  const full = valueText(value, column);
  const text = label === undefined ? full : plain(label);
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
  readonly question: string;
  readonly columns: readonly Column[];
  readonly titles: readonly string[];
  readonly row: Row;
}

/** All values of a row, including hidden columns, unshortened. */
function RowValues({ question, columns, titles, row }: RowValuesProps) {
  const link = useLink();
  const spot = spotOf(question, columns, row);
  return (
    <dl>
      {spot !== undefined && (
        <div>
          <dt>
            <a href={link("timeline", spotState(spot))}>Show on the timeline</a>
          </dt>
          <dd />
        </div>
      )}
      {columns.map((column, index) => (
        <div key={column.name}>
          <dt title={column.meaning}>{titles[index]}</dt>
          <dd>{valueText(row[column.name], column)}</dd>
        </div>
      ))}
    </dl>
  );
}
