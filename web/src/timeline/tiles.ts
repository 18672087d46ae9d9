/** Requests tiles, keeps the latest, and finds stand-ins for missing ones. */
import type { Blocks, Curve, Tile } from "../source/timeline";

export interface Piece {
  readonly level: number;
  readonly index: number;
  readonly names: readonly string[];
  readonly data: Blocks | Curve;
  /** Starts of the lanes among the blocks, followed by the end of the last one. */
  readonly lanes: readonly number[];
}

/** Tracks that are requested together, so that fast ones need not wait for others. */
type Together = (track: string) => string;
type Ask = (level: number, index: number, tracks: readonly string[]) => Promise<Tile>;

const MOST_BLOCKS = 1_200_000;
const AT_ONCE = 4;
/** The largest difference in level of a stand-in. */
const NEAR = 7;

export function isCurve(data: Blocks | Curve): data is Curve {
  return "last" in data;
}

export class Tiles {
  readonly #ask: Ask;
  readonly #together: Together;
  readonly #arrived: (error: unknown) => void;
  readonly #kept = new Map<string, Piece>();
  readonly #asked = new Set<string>();
  /** Failed tiles are not requested again until `retry`, because the next zoom requests others. */
  readonly #refused = new Set<string>();
  #blocks = 0;
  #running = 0;

  constructor(ask: Ask, arrived: (error: unknown) => void, together: Together = () => "") {
    this.#ask = ask;
    this.#together = together;
    this.#arrived = arrived;
  }

  get(track: string, level: number, index: number): Piece | undefined {
    return this.#kept.get(key(track, level, index));
  }

  /** Whether all of some tiles are loaded, or failed. */
  has(tracks: readonly string[], level: number, indices: readonly number[]): boolean {
    return indices.every((index) =>
      tracks.every((one) => {
        const name = key(one, level, index);
        return this.#kept.has(name) || this.#refused.has(name);
      }),
    );
  }

  /** Allows failed tiles to be requested again. */
  retry() {
    this.#refused.clear();
  }

  /** What to draw for a track in a tile: itself, or one of another level that covers its time. */
  drawn(track: string, level: number, index: number): readonly Piece[] {
    const own = this.get(track, level, index);
    if (own !== undefined) return [own];
    for (let up = 1; up <= NEAR; up++) {
      const found = this.get(track, level + up, Math.floor(index / 2 ** up));
      if (found !== undefined) return [found];
    }
    for (let down = 1; down <= 3 && down <= level; down++) {
      const parts = Array.from({ length: 2 ** down }, (_, place) =>
        this.get(track, level - down, index * 2 ** down + place),
      ).filter((one) => one !== undefined);
      if (parts.length > 0) return parts;
    }
    return [];
  }

  /** Requests missing tiles, the first ones first, and drops requests that are no longer wanted. */
  want(tracks: readonly string[], level: number, indices: readonly number[]) {
    for (const index of indices) {
      if (this.#running >= AT_ONCE) return;
      const missing = tracks.filter((one) => {
        const name = key(one, level, index);
        return !this.#kept.has(name) && !this.#asked.has(name) && !this.#refused.has(name);
      });
      for (const own of new Set(missing.map(this.#together))) {
        const group = missing.filter((one) => this.#together(one) === own);
        this.#fetch(group, level, index);
      }
    }
  }

  #fetch(tracks: readonly string[], level: number, index: number) {
    const names = tracks.map((one) => key(one, level, index));
    for (const name of names) this.#asked.add(name);
    this.#running += 1;
    this.#ask(level, index, tracks)
      .then(
        (tile) => {
          for (const track of tracks) this.#keep(track, level, index, tile);
          return null;
        },
        (error: unknown) => {
          for (const name of names) this.#refused.add(name);
          return error;
        },
      )
      .then((error) => {
        for (const name of names) this.#asked.delete(name);
        this.#running -= 1;
        this.#arrived(error);
      });
  }

  #keep(track: string, level: number, index: number, tile: Tile) {
    const data = tile.tracks[track];
    if (data === undefined) return;
    this.#kept.set(key(track, level, index), {
      level,
      index,
      names: tile.names,
      data,
      lanes: isCurve(data) ? [] : laneStarts(data),
    });
    this.#blocks += data.start.length + 1;
    for (const [name, oldest] of this.#kept) {
      if (this.#blocks <= MOST_BLOCKS) break;
      this.#kept.delete(name);
      this.#blocks -= oldest.data.start.length + 1;
    }
  }
}

function key(track: string, level: number, index: number): string {
  return `${level}/${index}/${track}`;
}

export function laneStarts(blocks: Blocks): number[] {
  const starts: number[] = [];
  blocks.lane.forEach((lane, place) => {
    while (starts.length <= lane) starts.push(place);
  });
  while (starts.length <= blocks.rows) starts.push(blocks.lane.length);
  return starts;
}
