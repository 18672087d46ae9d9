/** The tools above a table: filter, groups, columns, and ways to copy or save its rows. */
import { useState } from "preact/hooks";
import { countText } from "../format/units";
import type { Row } from "../source/source";
import type { Column } from "../table/columns";
import { csvText, markdownText } from "../table/export";
import { groupable } from "../table/groups";

interface Props {
  readonly columns: readonly Column[];
  readonly titles: readonly string[];
  readonly rows: readonly Row[];
  /** The rows that match the filter, in order. */
  readonly places: readonly number[];
  readonly shown: ReadonlySet<string>;
  readonly typed: string;
  readonly isExpression: boolean;
  /** The column by which rows are grouped, or nothing. */
  readonly by: string;
  readonly set: (entry: string, value: string | null) => void;
}

export function TableTools(props: Props) {
  const { columns, titles, rows, places, shown, typed, isExpression, by, set } = props;
  const titleOf = (one: Column) => titles[columns.indexOf(one)] ?? one.name;
  const choose = (name: string, on: boolean) => {
    const names = columns.map((one) => one.name).filter((one) => (one === name ? on : shown.has(one)));
    set("columns", names.join(","));
  };
  const groups = groupable(columns, rows);
  return (
    <div class="tools">
      <label>
        <span class="hidden">Filter rows</span>
        <input
          type="search"
          placeholder="filter: words, *glob* or /regex/"
          value={typed}
          onInput={(event) => set("find", event.currentTarget.value)}
        />
      </label>
      {!isExpression && <span class="severe">not a regular expression</span>}
      <span class="muted" role="status">
        {places.length === rows.length
          ? rowsText(places.length)
          : `${countText(places.length)} of ${rowsText(rows.length)}`}
      </span>
      {groups.length > 0 && (
        <label>
          group by{" "}
          <select value={by} onChange={(event) => set("group", event.currentTarget.value)}>
            <option value="">nothing</option>
            {groups.map((one) => (
              <option key={one.name} value={one.name}>
                {titleOf(one)}
              </option>
            ))}
          </select>
        </label>
      )}
      <details class="menu">
        <summary>
          Columns{" "}
          {shown.size < columns.length && (
            <span class="plain">
              {shown.size} of {columns.length}
            </span>
          )}
        </summary>
        <div>
          {columns.map((column) => (
            <label key={column.name} title={column.meaning}>
              <input
                type="checkbox"
                checked={shown.has(column.name)}
                onChange={(event) => choose(column.name, event.currentTarget.checked)}
              />{" "}
              {titleOf(column)}
            </label>
          ))}
        </div>
      </details>
      <CopyMenu {...props} />
    </div>
  );
}

function CopyMenu({ columns, titles, rows, places, shown }: Props) {
  const [said, setSaid] = useState("");
  const copy = async (what: string) => {
    const wanted = columns.filter((one) => shown.has(one.name));
    const heads = wanted.map((one) => titles[columns.indexOf(one)] ?? one.name);
    const chosen = places.map((place) => rows[place] as Row);
    const text = what === "CSV" ? csvText(wanted, chosen) : markdownText(wanted, heads, chosen);
    const done = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    setSaid(
      done ? `${rowsText(chosen.length)} copied as ${what}` : "The browser does not let this page copy.",
    );
  };
  return (
    <>
      <details class="menu">
        <summary>Copy</summary>
        <div>
          {["CSV", "Markdown"].map((what) => (
            <button key={what} type="button" onClick={() => copy(what)}>
              as {what}
            </button>
          ))}
        </div>
      </details>
      <span class="muted" role="status">
        {said}
      </span>
    </>
  );
}

function rowsText(count: number): string {
  return `${countText(count)} ${count === 1 ? "row" : "rows"}`;
}
