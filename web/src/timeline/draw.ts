/** Draws the visible part of the timeline on its canvas. */
import { fitting } from "../format/cut";
import { numberText, timeText } from "../format/units";
import type { Blocks, Curve, Layout, Place, Stretch } from "../source/timeline";
import type { Palette, Shade } from "./colours";
import { tintOf } from "./colours";
import { type Mark, startOf } from "./hit";
import { laneHeight, type Row, type Rows, topOf } from "./rows";
import { levelOf, type Range, ticks, tilesOf } from "./scale";
import { isCurve, type Piece, type Tiles } from "./tiles";

export const AXIS = 26;

export interface Arrow {
  readonly from: Place;
  readonly to: Place;
}

export interface Scene {
  readonly layout: Layout;
  readonly rows: Rows;
  readonly range: Range;
  readonly scroll: number;
  readonly width: number;
  readonly height: number;
  readonly tiles: Tiles;
  readonly chosen: Mark | null;
  readonly pointed: Mark | null;
  readonly arrows: readonly Arrow[];
  readonly measured: Stretch | null;
  /** Intervals that are drawn faint: warm-up, and what a report leaves out. */
  readonly faint: readonly Stretch[];
  readonly found: string;
}

type Pen = CanvasRenderingContext2D;

/** The visible rows. */
export function visibleRows({ rows, scroll, height }: Pick<Scene, "rows" | "scroll" | "height">): Row[] {
  const room = height - AXIS - rows.pinnedHeight;
  return [...rows.pinned, ...rows.rows.filter((row) => row.y + row.height > scroll && row.y < scroll + room)];
}

export function draw(canvas: HTMLCanvasElement, scene: Scene, palette: Palette) {
  const { width, height, rows } = scene;
  const scale = devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  if (pen === null) return;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  pen.textBaseline = "middle";
  pen.fillStyle = palette.card;
  pen.fillRect(0, 0, width, height);
  const marks = ticks(scene.range, width).marks;
  pen.fillStyle = palette.line;
  for (const { at } of marks) pen.fillRect(Math.round(across(scene, at)), AXIS, 1, height);
  const seen = visibleRows(scene);
  clipped(pen, AXIS + rows.pinnedHeight, scene, () => {
    for (const row of seen.filter((one) => !one.pinned)) drawRow(pen, scene, palette, row);
  });
  clipped(pen, AXIS, scene, () => {
    for (const row of seen.filter((one) => one.pinned)) drawRow(pen, scene, palette, row);
    if (rows.pinnedHeight > 0) {
      pen.fillStyle = palette.muted;
      pen.fillRect(0, AXIS + rows.pinnedHeight - 1, width, 2);
    }
    drawFaint(pen, scene, palette);
    drawMark(pen, scene, scene.pointed, palette.ink, 1);
    drawMark(pen, scene, scene.chosen, palette.accent, 3);
    drawArrows(pen, scene, palette);
  });
  drawAxis(pen, scene, palette, marks);
  drawMeasured(pen, scene, palette);
}

function clipped(pen: Pen, top: number, { width, height }: Scene, work: () => void) {
  pen.save();
  pen.beginPath();
  pen.rect(0, top, width, height - top);
  pen.clip();
  work();
  pen.restore();
}

function across({ range, width }: Scene, at: number): number {
  return ((at - range.from) / (range.to - range.from)) * width;
}

function drawRow(pen: Pen, scene: Scene, palette: Palette, row: Row) {
  const y = AXIS + topOf(scene.rows, row, scene.scroll);
  if (row.track === null) {
    pen.fillStyle = palette.ground;
    pen.fillRect(0, y, scene.width, row.height);
    return;
  }
  pen.fillStyle = palette.line;
  pen.fillRect(0, y + row.height - 1, scene.width, 1);
  const level = levelOf(scene.range, scene.width);
  const pieces = tilesOf(scene.range, level, scene.layout).map(
    (index) => [index, scene.tiles.drawn(row.id, level, index)] as const,
  );
  const curves = pieces.flatMap(([, some]) => some.filter((one) => isCurve(one.data)));
  if (curves.length > 0) drawCurve(pen, scene, palette, row, curves, y);
  const texts: Text[] = [];
  for (const [index, some] of pieces) {
    const size = scene.layout.bins * 2 ** level;
    for (const piece of some) {
      if (!isCurve(piece.data))
        drawBlocks(pen, scene, palette, row, piece, y, [index * size, (index + 1) * size], texts);
    }
    if (some.length === 0) waiting(pen, scene, palette, row, y, [index * size, (index + 1) * size]);
  }
  for (const { ink, text, x, y: middle, room } of texts) {
    pen.fillStyle = ink;
    pen.fillText(fitting(pen, text, room), x, middle);
  }
}

/** Labels of blocks: drawn after all blocks, because a long block is drawn tile by tile. */
interface Text {
  readonly ink: string;
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly room: number;
}

function waiting(pen: Pen, scene: Scene, palette: Palette, row: Row, y: number, part: Stretch) {
  const [left, right] = [Math.max(0, across(scene, part[0])), Math.min(scene.width, across(scene, part[1]))];
  pen.fillStyle = palette.mark;
  pen.fillRect(left, y + row.height / 2 - 1, right - left, 2);
}

function drawBlocks(
  pen: Pen,
  scene: Scene,
  palette: Palette,
  row: Row,
  piece: Piece,
  y: number,
  part: Stretch,
  texts: Text[],
) {
  const blocks = piece.data as Blocks;
  const { range, width, layout } = scene;
  const perNs = width / (range.to - range.from);
  const base = startOf(piece, layout.bins) - range.from;
  const tall = laneHeight(row);
  const high = tall - (row.lanes > 1 ? 1 : 3);
  // Whole pixels, to avoid seams between tiles.
  const [least, most] = [
    Math.max(0, Math.round(across(scene, part[0]))),
    Math.min(width, Math.round(across(scene, part[1]))),
  ];
  const tints = piece.names.map(tintOf);
  const isRuler = row.track?.kind === "steps";
  const isSearched = scene.found !== "" && !isRuler && row.track?.kind !== "communication";
  const searched = isSearched ? piece.names.map((one) => matches(one, scene.found)) : null;
  for (let lane = 0; lane < Math.min(row.lanes, blocks.rows); lane++) {
    const top = y + 2 + lane * tall;
    if (top > scene.height || top + tall < AXIS) continue;
    const last = piece.lanes[lane + 1] ?? 0;
    for (let place = piece.lanes[lane] ?? 0; place < last; place++) {
      const from = (base + (blocks.start[place] ?? 0)) * perNs;
      const to = (base + (blocks.end[place] ?? 0)) * perNs;
      const left = Math.max(from, least);
      const right = Math.min(to, most);
      if (right < least || left > most) continue;
      const name = blocks.name[place] ?? 0;
      const shades = palette.shades[layout.kinds[blocks.kind[place] ?? 0] ?? "other"];
      const shade = shades?.[tints[name] ?? 0] as Shade;
      const several = (blocks.count[place] ?? 1) > 1;
      // A gap of a pixel keeps repeated events countable.
      const wide = Math.max(right - left - (to <= most && right - left > 3 ? 1 : 0), 1);
      pen.fillStyle = shade.fill;
      if (several) {
        const long = (blocks.end[place] ?? 0) - (blocks.start[place] ?? 0);
        const filled = (blocks.busy[place] ?? 0) / Math.max(long, 1);
        pen.globalAlpha = 0.35 + 0.65 * Math.min(1, filled);
      }
      const dim = searched !== null && !searched[name];
      if (dim) pen.globalAlpha *= 0.3;
      pen.fillRect(left, top, wide, high);
      pen.globalAlpha = 1;
      // Compared by time, because in pixels something that starts with the tile may lie before it.
      const starts = startOf(piece, layout.bins) + (blocks.start[place] ?? 0) >= part[0];
      if (isRuler && starts) {
        pen.fillStyle = palette.muted;
        pen.fillRect(left, top, 1, high);
      }
      const room = Math.min(to, width) - left - 6;
      if (room > 20 && !several && (starts || least === 0)) {
        const own = piece.names[name] ?? "";
        texts.push({
          ink: isRuler || dim ? palette.ink : shade.ink,
          text: isRuler ? `${own}  ${timeText(blocks.busy[place] ?? 0)}` : own,
          x: left + 3,
          y: top + high / 2 + 0.5,
          room,
        });
      }
    }
  }
}

/** Matches as the search does for plain text. */
export function matches(name: string, typed: string): boolean {
  return /[*?/]/.test(typed) || name.toLowerCase().includes(typed.trim().toLowerCase());
}

function drawCurve(pen: Pen, scene: Scene, palette: Palette, row: Row, pieces: readonly Piece[], y: number) {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const { data } of pieces) {
    for (const one of (data as Curve).low) low = Math.min(low, one);
    for (const one of (data as Curve).high) high = Math.max(high, one);
  }
  if (!(high >= low)) return;
  const floor = low >= 0 ? 0 : low;
  const span = high - floor || 1;
  const height = row.height - 8;
  const bottom = y + row.height - 3;
  const at = (value: number) => bottom - ((value - floor) / span) * height;
  pen.fillStyle = palette.shades.computation?.[0]?.fill ?? "";
  const edge = pen.fillStyle;
  let [x, value]: [number, number | null] = [0, null];
  const until = (to: number) => {
    if (value === null || to <= x) return;
    pen.globalAlpha = 0.3;
    pen.fillRect(x, at(value), to - x, bottom - at(value));
    pen.globalAlpha = 1;
    pen.fillRect(x, at(value) - 1, to - x, 1.5);
  };
  for (const piece of pieces) {
    const data = piece.data as Curve;
    const base = startOf(piece, scene.layout.bins);
    data.start.forEach((start, place) => {
      const next = Math.max(0, across(scene, base + start));
      until(next);
      pen.fillStyle = edge;
      if ((data.count[place] ?? 0) > 1) {
        const top = at(data.high[place] ?? 0);
        pen.fillRect(next, top, 1, Math.max(at(data.low[place] ?? 0) - top, 1));
      }
      if (next >= x || value === null) [x, value] = [next, data.last[place] ?? null];
    });
  }
  until(Math.min(scene.width, across(scene, scene.layout.end_ns)));
  const unit = row.track?.unit ?? "";
  // Numbers with units of their own already include them.
  const text = [
    numberText(high, unit),
    ...(/^(|bytes.*|ns|ratio|count|flop.*)$/.test(unit) ? [] : [unit]),
  ].join(" ");
  const { from } = scene.range;
  // Right of the faint area that would cover it.
  const [, clear] = scene.faint.find(([start, end]) => start <= from && end > from) ?? [from, from];
  const left = across(scene, clear) + 2;
  pen.fillStyle = palette.card;
  pen.globalAlpha = 0.8;
  pen.fillRect(left, y + 2, pen.measureText(text).width + 6, 13);
  pen.globalAlpha = 1;
  pen.fillStyle = palette.muted;
  pen.fillText(text, left + 3, y + 9);
}

function drawFaint(pen: Pen, scene: Scene, palette: Palette) {
  for (const [from, to] of scene.faint) {
    const [left, right] = [Math.max(0, across(scene, from)), Math.min(scene.width, across(scene, to))];
    if (right <= left) continue;
    pen.globalAlpha = 0.82;
    pen.fillStyle = palette.ground;
    pen.fillRect(left, AXIS, right - left, scene.height);
    pen.globalAlpha = 1;
    pen.strokeStyle = palette.line;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let x = left - scene.height; x < right; x += 14) {
      const [a, b] = [Math.max(x, left), Math.min(x + scene.height, right)];
      if (b <= a) continue;
      pen.moveTo(a, AXIS + scene.height - (a - x));
      pen.lineTo(b, AXIS + scene.height - (b - x));
    }
    pen.stroke();
  }
}

/** A frame around the selected or hovered event. */
function drawMark(pen: Pen, scene: Scene, mark: Mark | null, colour: string, line: number) {
  const row = mark === null ? undefined : rowOf(scene, mark.track);
  if (mark === null || row === undefined || mark.lane >= row.lanes) return;
  const tall = laneHeight(row);
  const top = AXIS + topOf(scene.rows, row, scene.scroll) + 2 + mark.lane * tall;
  const least = AXIS + (row.pinned ? 0 : scene.rows.pinnedHeight);
  if (top + tall < least) return;
  const left = Math.max(-5, across(scene, mark.from));
  const right = Math.min(scene.width + 5, across(scene, mark.to));
  pen.strokeStyle = colour;
  pen.lineWidth = line;
  pen.strokeRect(left - 1, top - 1, Math.max(right - left, 3) + 1, tall - (row.lanes > 1 ? 0 : 2));
}

function rowOf({ rows }: Scene, track: string): Row | undefined {
  return rows.pinned.find((one) => one.id === track) ?? rows.rows.find((one) => one.id === track);
}

function drawArrows(pen: Pen, scene: Scene, palette: Palette) {
  const place = ({ track, lane, start_ns, end_ns }: Place, atEnd: boolean) => {
    const row = rowOf(scene, track);
    if (row === undefined) return null;
    const y = AXIS + topOf(scene.rows, row, scene.scroll) + 2;
    return [
      across(scene, atEnd ? end_ns : start_ns),
      y + (Math.min(lane, row.lanes - 1) + 0.5) * laneHeight(row),
    ] as const;
  };
  pen.strokeStyle = palette.accent;
  pen.fillStyle = palette.accent;
  pen.lineWidth = 1.5;
  for (const { from, to } of scene.arrows) {
    const [a, b] = [place(from, to.start_ns >= from.end_ns), place(to, false)];
    if (a === null || b === null || Math.max(a[0], b[0]) < 0 || Math.min(a[0], b[0]) > scene.width) continue;
    const bend = Math.max(12, Math.abs(b[0] - a[0]) / 3);
    pen.beginPath();
    pen.moveTo(...a);
    pen.bezierCurveTo(a[0] + bend, a[1], b[0] - bend, b[1], ...b);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(...b);
    pen.lineTo(b[0] - 7, b[1] - 4);
    pen.lineTo(b[0] - 7, b[1] + 4);
    pen.fill();
  }
}

function drawAxis(
  pen: Pen,
  scene: Scene,
  palette: Palette,
  marks: readonly { readonly at: number; readonly text: string }[],
) {
  const { width, layout, range } = scene;
  pen.fillStyle = palette.card;
  pen.fillRect(0, 0, width, AXIS);
  pen.fillStyle = palette.line;
  pen.fillRect(0, AXIS - 1, width, 1);
  pen.fillStyle = palette.muted;
  for (const { at, text } of marks) {
    const x = Math.round(across(scene, at));
    pen.fillRect(x, AXIS - 6, 1, 5);
    if (x + pen.measureText(text).width + 8 < width) pen.fillText(text, x + 4, 14);
  }
  // The position within the recording.
  const all = Math.max(layout.end_ns - layout.start_ns, 1);
  pen.fillStyle = palette.line;
  pen.fillRect(0, 0, width, 4);
  pen.fillStyle = palette.accent;
  const left = ((range.from - layout.start_ns) / all) * width;
  pen.fillRect(left, 0, Math.max(((range.to - range.from) / all) * width, 3), 4);
}

function drawMeasured(pen: Pen, scene: Scene, palette: Palette) {
  if (scene.measured === null) return;
  const [left, right] = scene.measured.map((one) => across(scene, one)) as [number, number];
  pen.globalAlpha = 0.12;
  pen.fillStyle = palette.accent;
  pen.fillRect(left, AXIS, right - left, scene.height);
  pen.globalAlpha = 1;
  pen.fillRect(left, AXIS, 1, scene.height);
  pen.fillRect(right, AXIS, 1, scene.height);
  const text = timeText(Math.round(scene.measured[1] - scene.measured[0]));
  const wide = pen.measureText(text).width;
  const middle = Math.min(Math.max((left + right) / 2, wide), scene.width - wide);
  pen.fillStyle = palette.accent;
  pen.fillRect(middle - wide / 2 - 5, 6, wide + 10, 16);
  pen.fillStyle = palette.card;
  pen.fillText(text, middle - wide / 2, 14.5);
}
