/** The tools above the timeline: search, zoom, measuring, and the list of keys. */
import type { RefObject } from "preact";
import type { Found, Layout } from "../source/timeline";
import { KEYS, type Move } from "./keys";

interface Props {
  readonly layout: Layout;
  readonly searchBox: RefObject<HTMLInputElement | null>;
  readonly keysMenu: RefObject<HTMLDetailsElement | null>;
  readonly find: string;
  readonly found: Found | null;
  readonly hidesWarmUp: boolean;
  readonly hasSelection: boolean;
  readonly onFind: (text: string) => void;
  /** Moves to the next or previous event of the searched name. */
  readonly onSeek: (by: 1 | -1) => void;
  readonly onHide: (hides: boolean) => void;
  readonly onRank: (rank: number) => void;
  readonly moves: Readonly<Record<Move, () => void>>;
}

export function Tools({
  layout,
  searchBox,
  keysMenu,
  find,
  found,
  hidesWarmUp,
  hasSelection,
  onFind,
  onSeek,
  onHide,
  onRank,
  moves,
}: Props) {
  return (
    <div class="tools">
      <label>
        <span class="hidden">Search events by name</span>
        <input
          ref={searchBox}
          type="search"
          placeholder="search: name, *glob* or /regex/"
          title={'a part of the name, *glob* or /regex/ in any case; in quotes, "all of it"'}
          value={find}
          onInput={(event) => onFind(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && onSeek(event.shiftKey ? -1 : 1)}
        />
      </label>
      <button type="button" disabled={find === ""} onClick={() => onSeek(-1)}>
        Previous
      </button>
      <button type="button" disabled={find === ""} onClick={() => onSeek(1)}>
        Next
      </button>
      <span class="muted" role="status">
        {found !== null &&
          (found.total === 0 ? "no event has such a name" : `${found.number + 1} of ${found.total}`)}
      </span>
      <span class="gap" />
      {layout.ranks.length > 1 && (
        <select
          aria-label="Go to a rank"
          value=""
          onChange={(event) => {
            onRank(Number(event.currentTarget.value));
            event.currentTarget.value = "";
          }}
        >
          <option value="" disabled hidden>
            Go to rank
          </option>
          {layout.ranks.map(({ rank, title }) => (
            <option key={rank} value={rank}>
              {title}
            </option>
          ))}
        </select>
      )}
      <button type="button" onClick={moves.all}>
        All
      </button>
      <button type="button" disabled={!hasSelection} onClick={moves.fit}>
        Zoom to selection
      </button>
      <button type="button" onClick={moves.measure}>
        Measure
      </button>
      {layout.warm_up.length > 0 && (
        <label>
          <input
            type="checkbox"
            checked={hidesWarmUp}
            onChange={(event) => onHide(event.currentTarget.checked)}
          />{" "}
          Hide compilation and warm-up
        </label>
      )}
      <details ref={keysMenu} class="menu">
        <summary>Keys</summary>
        <dl class="keys">
          {KEYS.map(({ keys, does }) => (
            <div key={keys}>
              <dt>{keys}</dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
      </details>
    </div>
  );
}
