/** The titles beside the tracks, with the buttons to fold and pin them. */
import { Cut } from "../parts/cut";
import { AXIS } from "./draw";
import { folds, type Row, type Rows, type Shown, topOf } from "./rows";

interface Props {
  readonly rows: Rows;
  readonly shown: Shown;
  readonly scroll: number;
  readonly height: number;
  readonly width: number;
  readonly onTurn: (id: string) => void;
  readonly onPin: (id: string) => void;
  readonly onSeen: (id: string) => void;
}

export function Titles({ rows, shown, scroll, height, width, onTurn, onPin, onSeen }: Props) {
  const room = height - AXIS - rows.pinnedHeight;
  const seen = rows.rows.filter((row) => row.y + row.height > scroll && row.y < scroll + room);
  const title = (row: Row) => (
    <Title
      key={`${row.id} ${row.pinned}`}
      row={row}
      y={topOf(rows, row, scroll) - (row.pinned ? 0 : rows.pinnedHeight)}
      opens={folds(row, shown)}
      onTurn={onTurn}
      onPin={onPin}
      onSeen={onSeen}
    />
  );
  return (
    <div class="timeline-titles" style={{ width: `${width}px` }}>
      <div class="pinned" style={{ top: `${AXIS}px`, height: `${rows.pinnedHeight}px` }}>
        {rows.pinned.map(title)}
      </div>
      <div class="rest" style={{ top: `${AXIS + rows.pinnedHeight}px`, height: `${Math.max(0, room)}px` }}>
        {seen.map(title)}
      </div>
    </div>
  );
}

interface TitleProps {
  readonly row: Row;
  readonly y: number;
  readonly opens: boolean;
  readonly onTurn: (id: string) => void;
  readonly onPin: (id: string) => void;
  readonly onSeen: (id: string) => void;
}

function Title({ row, y, opens, onTurn, onPin, onSeen }: TitleProps) {
  const words = <Cut text={row.title} />;
  return (
    <div
      class={row.track === null ? "track-title rank" : "track-title"}
      style={{ top: `${y}px`, height: `${row.height}px` }}
      onFocusIn={() => !row.pinned && onSeen(row.id)}
    >
      {opens && !row.pinned ? (
        <button
          type="button"
          class="fold"
          aria-expanded={!row.folded}
          title={row.title}
          onClick={() => onTurn(row.id)}
        >
          <span aria-hidden="true" class="arrow">
            {row.folded ? "▸" : "▾"}
          </span>
          {words}
        </button>
      ) : (
        <span class="fold" title={row.title}>
          <span aria-hidden="true" class="arrow" />
          {words}
        </span>
      )}
      {row.track !== null && (
        <button
          type="button"
          class="pin"
          aria-pressed={row.pinned}
          aria-label={`Pin ${row.title}`}
          title={row.pinned ? "no longer at the top" : "keep at the top"}
          onClick={() => onPin(row.id)}
        >
          {row.pinned ? "●" : "○"}
        </button>
      )}
    </div>
  );
}
