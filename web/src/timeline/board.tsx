/** The canvas of the timeline with its titles, its search, and the details of a selection. */
import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { useDark } from "../parts/plot";
import { useWidth } from "../parts/width";
import { Words } from "../parts/words";
import type { Parameters } from "../source/source";
import type {
  EventDetails,
  Found,
  Layout,
  Measured,
  Place,
  Stretch,
  TimelineAnswers,
} from "../source/timeline";
import { changed } from "../state/address";
import { useChange, usePage } from "../state/page";
import { entriesOf, keptIn } from "./address";
import { palette } from "./colours";
import { AXIS, draw, type Scene, visibleRows } from "./draw";
import { blockAt, blockBeside, type Drag, type Mark, markAt, markOf } from "./hit";
import { type Move, moveOf } from "./keys";
import {
  arrowsOf,
  boundsOf,
  faintOf,
  firstRange,
  firstTurned,
  groupsOf,
  useFocus,
  useHeight,
  withRows,
} from "./opening";
import { EventPanel, Legend, MeasuredPanel } from "./panels";
import { rankId, rowAt, rowsOf, scrollTo } from "./rows";
import { around, levelOf, moved, type Range, tilesOf, within, zoomed } from "./scale";
import { isCurve, Tiles } from "./tiles";
import { Titles } from "./titles";
import { Tools } from "./tools";

interface Props {
  readonly layout: Layout;
  readonly recording: string;
  /** Called with what it has written into the address. */
  readonly onWrite: (state: string) => void;
}

/** Width of the titles in pixels, by their share of the width. */
const TITLES = { least: 210, most: 260, share: 0.19, narrow: 0.36 };
const SCROLLBAR = 14;

export function Board({ layout, recording, onWrite }: Props) {
  const { source, address, live } = usePage();
  const change = useChange();
  const dark = useDark();
  const kept = useMemo(() => keptIn(address.state), []);
  const canvas = useRef<HTMLCanvasElement>(null);
  const bar = useRef<HTMLDivElement>(null);
  const searchBox = useRef<HTMLInputElement>(null);
  const keysMenu = useRef<HTMLDetailsElement>(null);
  const [area, wide] = useWidth();
  const titles = Math.round(
    Math.min(wide * TITLES.narrow, TITLES.most, Math.max(TITLES.least, wide * TITLES.share)),
  );
  const width = Math.max(0, wide - titles - SCROLLBAR);
  const most = useHeight();
  useFocus(canvas);
  const [hidesWarmUp, setHidesWarmUp] = useState(kept.hidesWarmUp);
  const bounds = useMemo(() => boundsOf(layout, hidesWarmUp), [layout, hidesWarmUp]);
  const [range, setRange] = useState<Range>(() => firstRange(layout, kept, bounds));
  const [scroll, setScroll] = useState(0);
  const [turned, setTurned] = useState<ReadonlySet<string>>(() => firstTurned(layout, kept));
  const [pins, setPins] = useState<readonly string[]>(kept.pins);
  const [lanes, setLanes] = useState<ReadonlyMap<string, number>>(new Map());
  const [chosen, setChosen] = useState<Mark | null>(null);
  const [pointed, setPointed] = useState<Mark | null>(null);
  const [details, setDetails] = useState<EventDetails | null>(null);
  const [measured, setMeasured] = useState(kept.measured);
  const [drawnOut, setDrawnOut] = useState<Stretch | null>(null);
  const [sums, setSums] = useState<Measured | null>(null);
  const [find, setFind] = useState(kept.find);
  const [found, setFound] = useState<Found | null>(null);
  const [trouble, setTrouble] = useState("");
  const [, again] = useReducer((count: number) => count + 1, 0);
  const touched = useRef(false);

  const shown = useMemo(() => ({ turned, pins, lanes }), [turned, pins, lanes]);
  const rows = useMemo(() => rowsOf(layout, shown), [layout, shown]);
  const height = Math.min(most, Math.max(300, AXIS + rows.pinnedHeight + rows.height + 16));
  const troubled = (reason: unknown) => setTrouble(reason instanceof Error ? reason.message : String(reason));
  const groups = useMemo(() => groupsOf(layout), [layout]);
  // Ends requests for a picture that is no longer shown.
  const left = useMemo(() => new AbortController(), [source, recording]);
  const search = useRef(left);
  useEffect(
    () => () => {
      left.abort();
      search.current.abort();
    },
    [left],
  );
  const asked = <W extends keyof TimelineAnswers>(
    what: W,
    parameters: Parameters,
    show: (value: TimelineAnswers[W]) => void,
    ends = new AbortController(),
  ) => {
    source.timeline(recording, what, parameters, ends.signal).then(
      (value) => ends.signal.aborted || show(value),
      (reason: unknown) => ends.signal.aborted || troubled(reason),
    );
    return () => ends.abort();
  };
  const tiles = useMemo(
    () =>
      new Tiles(
        (level, index, tracks) =>
          source
            .timeline(recording, "tile", { level, index, tracks: tracks.join(",") }, left.signal)
            .then((tile) => {
              setLanes((known) => withRows(known, tile.tracks));
              return tile;
            }),
        (error) => {
          if (left.signal.aborted) return;
          if (error !== null) troubled(error);
          again(0);
        },
        (track) => groups.get(track) ?? "",
      ),
    [source, recording],
  );
  useEffect(() => {
    tiles.retry();
    setTrouble("");
  }, [live.version, tiles]);
  const room = height - AXIS - rows.pinnedHeight;
  const top = Math.max(0, Math.min(scroll, rows.height - room));
  const arrows = useMemo(() => arrowsOf(details), [details]);
  const faint = useMemo(() => faintOf(layout, hidesWarmUp), [layout, hidesWarmUp]);
  const scene: Scene = {
    layout, rows, range, scroll: top, width, height, tiles, chosen, pointed, arrows, faint,
    measured: drawnOut ?? measured?.range ?? null, found: found === null ? "" : find,
  }; // biome-ignore format: one line for what is where

  const colours = useMemo(palette, [dark]);
  const level = levelOf(range, width);
  const indices = tilesOf(range, level, layout);
  const wanted = visibleRows(scene).flatMap((row) => (row.track === null ? [] : [row.track.id]));
  const isComplete = width > 0 && height > 0 && tiles.has(wanted, level, indices);
  useEffect(() => {
    if (width <= 0) return undefined;
    tiles.want(wanted, level, indices);
    const frame = requestAnimationFrame(() => {
      if (canvas.current !== null) draw(canvas.current, scene, colours);
    });
    return () => cancelAnimationFrame(frame);
  });
  useEffect(() => {
    if (bar.current !== null && Math.abs(bar.current.scrollTop - top) > 1) bar.current.scrollTop = top;
  }, [top]);

  // The address follows shortly after the last change.
  useEffect(() => {
    if (!touched.current) return undefined;
    const later = setTimeout(() => {
      const at = chosen?.count === 1 ? { track: chosen.track, id: chosen.id } : null;
      const entries = entriesOf({
        range: [range.from, range.to], at, pins, turned: [...turned], find, measured, hidesWarmUp, rank: null,
      }); // biome-ignore format: as it is kept
      onWrite(JSON.stringify([...changed(address, entries).state]));
      change(entries);
    }, 250);
    return () => clearTimeout(later);
  }, [range, chosen, pins, turned, find, measured, hidesWarmUp]);
  const touch = () => {
    touched.current = true;
  };

  const go = (next: Range) => {
    touch();
    setRange(next);
  };
  const show = (mark: Mark, fit: boolean) => {
    choose(mark);
    reveal(mark);
    const length = range.to - range.from;
    const seen = mark.from >= range.from && mark.to <= range.to;
    if (fit) go(around(mark.from, mark.to, bounds));
    else if (!seen || mark.to - mark.from < length / 2000) {
      const wanted = mark.to - mark.from > length || mark.to - mark.from < length / 500;
      const least = Math.max((mark.to - mark.from) * 12, 2000);
      const next = wanted ? least : length;
      const middle = (mark.from + mark.to) / 2;
      go(within({ from: middle - next / 2, to: middle + next / 2 }, bounds));
    }
  };
  const reveal = (mark: { readonly track: string; readonly lane: number }) => {
    const owner = layout.ranks.find(({ tracks }) => tracks.some((one) => one.id === mark.track));
    const row = rows.rows.find((one) => one.id === mark.track);
    if (
      owner !== undefined &&
      (row === undefined || (row.folded && mark.lane > 0)) &&
      !pins.includes(mark.track)
    ) {
      const rankRow = rows.rows.find((one) => one.track === null && one.rank === owner.rank);
      const next = new Set(turned);
      if (rankRow?.folded) flip(next, rankRow.id);
      const track = owner.tracks.find((one) => one.id === mark.track);
      if (track !== undefined && track.dull !== turned.has(track.id)) flip(next, track.id);
      setTurned(next);
      const after = rowsOf(layout, { ...shown, turned: next });
      setScroll(scrollTo(after, mark.track, mark.lane, top, height - AXIS));
    } else setScroll(scrollTo(rows, mark.track, mark.lane, top, height - AXIS));
  };
  const choose = (mark: Mark | null) => {
    touch();
    setChosen(mark);
    if (mark === null || mark.track !== details?.place?.track || mark.id !== details.place.id)
      setDetails(null);
  };
  useEffect(() => {
    if (chosen === null || chosen.count > 1) return undefined;
    return asked("event", { track: chosen.track, id: chosen.id }, setDetails);
  }, [chosen?.track, chosen?.id, chosen?.count]);
  useEffect(() => {
    setSums(null);
    if (measured === null) return undefined;
    const [start, end] = measured.range.map(Math.round) as [number, number];
    return asked("range", { start, end, tracks: measured.tracks.join(",") }, setSums);
  }, [measured]);
  // A place in the address is shown once.
  useEffect(() => {
    if (kept.rank !== null)
      setScroll(rows.rows.find((one) => one.id === rankId(kept.rank as number))?.y ?? 0);
    if (kept.at !== null) {
      const open = ({ place }: EventDetails) => {
        if (place === null) return;
        setChosen(markAt(place));
        reveal(place);
        // Search results stay highlighted, and numbers continue from here.
        if (kept.find !== "") asked("find", { name: kept.find, at: place.start_ns }, setFound, left);
        if (kept.range === null) setRange(around(place.start_ns, place.end_ns, bounds));
      };
      asked("event", kept.at, open, left);
    } else if (kept.find !== "")
      seek(kept.find, {
        ...(kept.range === null ? {} : { at: Math.round(kept.range[0]) }),
        ...(kept.rank === null ? {} : { rank: kept.rank }),
      });
  }, []);

  const seek = (
    name: string,
    which: { readonly number?: number; readonly at?: number; readonly rank?: number },
  ) => {
    if (name.trim() === "") {
      setFound(null);
      return;
    }
    setTrouble("");
    if (search.current !== left) search.current.abort();
    search.current = new AbortController();
    const told = (value: Found) => {
      const inQuotes = /^"(.+)"$/s.exec(name)?.[1];
      if (value.total === 0 && name === kept.find && inQuotes !== undefined) {
        // A row's name may be shorter than its events': `Memcpy HtoD` for copies from pageable memory.
        setFind(inQuotes);
        seek(inQuotes, which);
        return;
      }
      setFound(value);
      if (value.place !== null) show(markAt(value.place), false);
    };
    asked("find", { name, ...which }, told, search.current);
  };
  const seekBeside = (by: number) => {
    if (found === null) seek(find, { at: Math.round(range.from) });
    else if (found.total > 0) seek(find, { number: (found.number + by + found.total) % found.total });
  };

  const pieceAt = (x: number, y: number): Mark | null => {
    const hit = rowAt(rows, y - AXIS, top);
    if (!hit?.row.track || y < AXIS) return null;
    const at = range.from + (x / width) * (range.to - range.from);
    const slack = ((range.to - range.from) / width) * 3;
    const index = Math.floor(at / (layout.bins * 2 ** level));
    for (const piece of tiles.drawn(hit.row.track.id, level, index)) {
      if (isCurve(piece.data)) continue;
      const place = blockAt(piece, hit.lane, at, slack, layout.bins);
      if (place >= 0) return markOf(hit.row.track.id, piece, place, layout);
    }
    return null;
  };
  const beside = (forward: boolean) => {
    if (chosen === null) return firstSeen();
    const pieces = indices.flatMap((index) => tiles.drawn(chosen.track, level, index));
    const next = blockBeside(pieces, chosen.lane, chosen.from, forward, layout.bins);
    if (next === undefined) {
      go(moved(range, ((forward ? 1 : -1) * (range.to - range.from)) / 2, bounds));
      return undefined;
    }
    const mark = markOf(chosen.track, ...next, layout);
    choose(mark);
    if (mark.from < range.from || mark.to > range.to) {
      go(moved(range, (mark.from + mark.to - range.from - range.to) / 2, bounds));
    }
    return undefined;
  };
  const firstSeen = () => {
    for (const row of visibleRows(scene)) {
      for (const index of row.track === null ? [] : indices) {
        for (const piece of tiles.drawn(row.id, level, index)) {
          if (isCurve(piece.data)) continue;
          const next = blockBeside([piece], 0, range.from - 1, true, layout.bins);
          if (next !== undefined) return choose(markOf(row.id, ...next, layout));
        }
      }
    }
    return undefined;
  };
  /** Moves to the next lane, or the next track, above or below. */
  const across = (by: 1 | -1) => {
    if (chosen === null) return firstSeen();
    const places = [...rows.pinned, ...rows.rows].flatMap((row) =>
      row.track === null || row.track.kind === "counter" || row.track.kind === "memory"
        ? []
        : Array.from({ length: row.lanes }, (_, lane) => ({ track: row.id, lane })),
    );
    const at = places.findIndex((one) => one.track === chosen.track && one.lane === chosen.lane);
    const middle = (Math.max(chosen.from, range.from) + Math.min(chosen.to, range.to)) / 2;
    for (let place = at + by; place >= 0 && place < places.length; place += by) {
      const { track, lane } = places[place] as { track: string; lane: number };
      const pieces = indices
        .flatMap((index) => tiles.drawn(track, level, index))
        .filter((one) => !isCurve(one.data));
      if (pieces.length === 0) {
        // Not loaded yet: it is requested once it is visible.
        setScroll(scrollTo(rows, track, lane, top, height - AXIS));
        return undefined;
      }
      const next =
        blockBeside(pieces, lane, middle + 1, false, layout.bins) ??
        blockBeside(pieces, lane, middle, true, layout.bins);
      if (next === undefined) continue;
      choose(markOf(track, ...next, layout));
      setScroll(scrollTo(rows, track, lane, top, height - AXIS));
      return undefined;
    }
    return undefined;
  };
  const measure = (stretch: Stretch, tracks: readonly string[]) => {
    touch();
    setMeasured({ range: stretch, tracks });
  };
  const tracksSeen = () =>
    visibleRows(scene).flatMap(({ track }) =>
      track === null || track.kind === "counter" || track.kind === "memory" ? [] : [track.id],
    );
  const pin = (id: string) => {
    touch();
    setPins(pins.includes(id) ? pins.filter((one) => one !== id) : [...pins, id]);
  };
  const turn = (id: string) => {
    touch();
    const next = new Set(turned);
    flip(next, id);
    setTurned(next);
  };
  const zoom = (factor: number, at = (range.from + range.to) / 2) => go(zoomed(range, factor, at, bounds));
  const moves: Readonly<Record<Move, () => void>> = {
    in: () =>
      zoom(
        0.6,
        chosen !== null && chosen.from < range.to && chosen.to > range.from
          ? middleOf(chosen, range)
          : undefined,
      ),
    out: () => zoom(1 / 0.6),
    left: () => go(moved(range, -(range.to - range.from) / 5, bounds)),
    right: () => go(moved(range, (range.to - range.from) / 5, bounds)),
    next: () => beside(true),
    previous: () => beside(false),
    up: () => across(-1),
    down: () => across(1),
    fit: () =>
      chosen !== null ? show(chosen, true) : measured !== null && go(around(...measured.range, bounds)),
    all: () => go({ from: bounds.from, to: bounds.to }),
    measure: () => measure(chosen === null ? [range.from, range.to] : [chosen.from, chosen.to], tracksSeen()),
    search: () => searchBox.current?.focus(),
    pin: () => chosen !== null && pin(chosen.track),
    fold: () => chosen !== null && turn(chosen.track),
    clear: () => {
      choose(null);
      setMeasured(null);
      keysMenu.current?.removeAttribute("open");
    },
    help: () => keysMenu.current?.toggleAttribute("open"),
  };
  const onKey = (event: KeyboardEvent) => {
    const move = moveOf(event);
    if (move === undefined) return;
    event.preventDefault();
    moves[move]();
  };

  const dragging = useRef<Drag | null>(null);
  const timeAt = (x: number) => range.from + (x / width) * (range.to - range.from);
  const placeOf = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };
  const onDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    canvas.current?.setPointerCapture(event.pointerId);
    dragging.current = { ...placeOf(event), range, scroll: top, measures: event.shiftKey, moved: false };
  };
  const dragged = (x: number, y: number) => {
    const drag = dragging.current;
    if (drag === null) return null;
    const [from, to] = [timeAt(Math.min(x, drag.x)), timeAt(Math.max(x, drag.x))];
    const [low, high] = [Math.min(y, drag.y), Math.max(y, drag.y)];
    const touchedRows = new Set<string>();
    for (let at = low; at <= high + 4; at += 4) {
      const track = rowAt(rows, at - AXIS, top)?.row.track;
      if (track && track.kind !== "counter" && track.kind !== "memory") touchedRows.add(track.id);
    }
    return { range: [from, to] as Stretch, tracks: [...touchedRows] };
  };
  const onMove = (event: PointerEvent) => {
    const { x, y } = placeOf(event);
    const drag = dragging.current;
    if (drag === null) {
      const mark = pieceAt(x, y);
      if (mark?.id !== pointed?.id || mark?.from !== pointed?.from || mark?.track !== pointed?.track)
        setPointed(mark);
      return;
    }
    if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3) drag.moved = true;
    if (!drag.moved) return;
    if (drag.measures) setDrawnOut(dragged(x, y)?.range ?? null);
    else {
      const length = drag.range.to - drag.range.from;
      go(moved(drag.range, ((drag.x - x) / width) * length, bounds));
      setScroll(Math.max(0, drag.scroll + drag.y - y));
    }
  };
  const onUp = (event: PointerEvent) => {
    const { x, y } = placeOf(event);
    const drag = dragging.current;
    const area = dragged(x, y);
    dragging.current = null;
    setDrawnOut(null);
    if (drag === null) return;
    if (!drag.moved) choose(pieceAt(x, y));
    else if (drag.measures && area !== null && area.range[1] > area.range[0])
      measure(area.range, area.tracks);
  };
  const onWheel = (event: WheelEvent) => {
    const { x } = placeOf(event);
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 90), timeAt(Math.max(0, x)));
      return;
    }
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      event.preventDefault();
      go(moved(range, (sideways / width) * (range.to - range.from), bounds));
    } else if (rows.height > room) {
      const next = Math.max(0, Math.min(top + event.deltaY, rows.height - room));
      if (next !== top) event.preventDefault();
      setScroll(next);
    }
  };
  // A native listener, because Preact's would be passive, and the page would also zoom.
  const wheel = useRef(onWheel);
  wheel.current = onWheel;
  useEffect(() => {
    const listen = (event: WheelEvent) => wheel.current(event);
    const on = canvas.current?.parentElement;
    on?.addEventListener("wheel", listen, { passive: false });
    return () => on?.removeEventListener("wheel", listen);
  }, []);

  return (
    <div class="timeline" data-complete={isComplete ? "yes" : "no"}>
      <Tools
        layout={layout}
        searchBox={searchBox}
        keysMenu={keysMenu}
        find={find}
        found={found}
        hidesWarmUp={hidesWarmUp}
        hasSelection={chosen !== null || measured !== null}
        onFind={(text) => {
          setFind(text);
          setFound(null);
        }}
        onSeek={(by) => {
          touch();
          seekBeside(by);
        }}
        onHide={(hides) => {
          touch();
          setHidesWarmUp(hides);
          setRange(within(range, boundsOf(layout, hides)));
        }}
        onRank={(rank) => {
          const head = rows.rows.find((row) => row.id === rankId(rank));
          if (head === undefined) return;
          if (head.folded) turn(head.id);
          setScroll(head.y);
        }}
        moves={moves}
      />
      {layout.left_out && (
        <p class="note">
          <Words text={layout.left_out} />
        </p>
      )}
      {trouble !== "" && (
        <p class="severe" role="alert">
          {trouble}
        </p>
      )}
      <div class="timeline-area" ref={area} style={{ height: `${height}px` }}>
        <Titles
          rows={rows}
          shown={shown}
          scroll={top}
          height={height}
          width={titles}
          onTurn={turn}
          onPin={pin}
          onSeen={(row) => setScroll(scrollTo(rows, row, 0, top, height - AXIS))}
        />
        <canvas
          ref={canvas}
          style={{ left: `${titles}px` }}
          tabIndex={0}
          role="img"
          aria-label="Timeline. Arrow keys walk over the events, W and S zoom, A and D move; the menu Keys has all. What is chosen is told below."
          onPointerDown={onDown}
          onPointerMove={onMove}
          onPointerUp={onUp}
          onPointerLeave={() => setPointed(null)}
          onDblClick={() => chosen !== null && show(chosen, true)}
          onKeyDown={onKey}
        />
        {/* A native scroll bar; with the keyboard, moving between events scrolls. */}
        <div
          ref={bar}
          class="timeline-bar"
          aria-hidden="true"
          onScroll={(event) => setScroll(event.currentTarget.scrollTop)}
          style={{ top: `${AXIS + rows.pinnedHeight}px` }}
        >
          <div style={{ height: `${rows.height}px` }} />
        </div>
      </div>
      <Legend layout={layout} />
      <EventPanel
        mark={chosen}
        pointed={pointed}
        details={details}
        layout={layout}
        onGo={(place: Place) => show(markAt(place), false)}
        onFit={() => chosen !== null && show(chosen, true)}
      />
      {measured !== null && (
        <MeasuredPanel
          range={measured.range}
          tracks={measured.tracks}
          sums={sums}
          layout={layout}
          onZoom={() => go(around(...measured.range, bounds))}
          onClear={() => {
            touch();
            setMeasured(null);
          }}
          onFind={(name) => {
            setFind(name);
            seek(name, { at: Math.round(measured.range[0]) });
          }}
        />
      )}
    </div>
  );
}

function flip(some: Set<string>, one: string) {
  if (!some.delete(one)) some.add(one);
}

function middleOf(mark: Mark, range: Range): number {
  return (Math.max(mark.from, range.from) + Math.min(mark.to, range.to)) / 2;
}
