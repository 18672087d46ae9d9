/** What the board shows at first, what it draws faint, and the arrows of a selection. */
import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { EventDetails, Layout, Stretch } from "../source/timeline";
import type { Kept } from "./address";
import type { Arrow } from "./draw";
import { rankId } from "./rows";
import { around, type Range, within } from "./scale";

export function boundsOf(layout: Layout, hidesWarmUp: boolean): Range {
  let [from, to] = layout.held ?? [layout.start_ns, layout.end_ns];
  if (hidesWarmUp) {
    const steady = layout.first?.[0] ?? to;
    for (const [, end] of layout.warm_up) if (end <= steady) from = Math.max(from, end);
  }
  to = Math.max(to, from + 1);
  return { from, to };
}

export function firstRange(layout: Layout, kept: Kept, bounds: Range): Range {
  const [from, to] = kept.range ?? layout.first ?? [bounds.from, bounds.to];
  return kept.range === null ? around(from, to, bounds) : within({ from, to }, bounds);
}

/** Tracks that are not folded or open as by default: the rank of a link is open. */
export function firstTurned(layout: Layout, { turned, rank }: Kept): ReadonlySet<string> {
  const place = layout.ranks.findIndex((one) => one.rank === rank);
  return new Set(place > 0 ? [...turned, rankId(rank as number)] : turned);
}

export function faintOf(layout: Layout, hidesWarmUp: boolean): Stretch[] {
  const beyond: Stretch[] =
    layout.held === undefined
      ? []
      : [
          [layout.start_ns - 1e15, layout.held[0]],
          [layout.held[1], layout.end_ns + 1e15],
        ];
  return hidesWarmUp ? [...beyond, ...layout.warm_up] : beyond;
}

/** Arrows from an event's launch to it, and from it to what it launched; the same for forward and backward. */
export function arrowsOf(details: EventDetails | null): Arrow[] {
  const own = details?.place;
  if (!own) return [];
  return details.links.flatMap(({ relation, places }) =>
    places.flatMap((place): Arrow[] => {
      if (relation === "launched" || relation === "backward") return [{ from: own, to: place }];
      if (relation === "launched by" || relation === "forward") return [{ from: place, to: own }];
      return [];
    }),
  );
}

export function withRows(
  known: ReadonlyMap<string, number>,
  tracks: Readonly<Record<string, { readonly rows: number }>>,
): ReadonlyMap<string, number> {
  const news = Object.entries(tracks).filter(([id, { rows }]) => known.get(id) !== rows && rows > 0);
  return news.length === 0
    ? known
    : new Map([...known, ...news.map(([id, { rows }]) => [id, rows] as const)]);
}

/** As high as the window allows, with some room for the details below. */
export function useHeight(): number {
  const [height, setHeight] = useState(0);
  useEffect(() => {
    const follow = () => setHeight(Math.max(300, Math.min(innerHeight - 250, 1000)));
    follow();
    addEventListener("resize", follow);
    return () => removeEventListener("resize", follow);
  }, []);
  return height;
}

/** A rank's threads are loaded separately, as are derived tracks, so that fast tracks need not wait. */
export function groupsOf(layout: Layout): ReadonlyMap<string, string> {
  return new Map(
    layout.ranks.flatMap(({ rank, tracks }) =>
      tracks.map(({ id, kind }) => {
        const own = kind === "thread" || kind === "modules" || kind === "overlap" ? kind : "rest";
        return [id, `${rank} ${own}`] as const;
      }),
    ),
  );
}

/** Takes the keyboard focus at the start, unless it is elsewhere, and keeps it when a button is clicked. */
export function useFocus(canvas: RefObject<HTMLElement | null>) {
  useEffect(() => {
    const { activeElement, body } = document;
    if (activeElement === body || activeElement?.matches("main"))
      canvas.current?.focus({ preventScroll: true });
    const keep = (event: Event) => {
      if (event.target instanceof Element && event.target.closest("button") !== null) event.preventDefault();
    };
    const timeline = canvas.current?.closest(".timeline");
    timeline?.addEventListener("mousedown", keep);
    return () => timeline?.removeEventListener("mousedown", keep);
  }, []);
}
