/** Keyboard commands while the timeline has the focus. */
export type Move =
  | "in"
  | "out"
  | "left"
  | "right"
  | "next"
  | "previous"
  | "up"
  | "down"
  | "fit"
  | "all"
  | "measure"
  | "search"
  | "pin"
  | "fold"
  | "clear"
  | "help";

const MOVES: Readonly<Record<string, Move>> = {
  w: "in",
  "+": "in",
  "=": "in",
  s: "out",
  "-": "out",
  a: "left",
  d: "right",
  ".": "next",
  ",": "previous",
  arrowright: "next",
  arrowleft: "previous",
  arrowup: "up",
  arrowdown: "down",
  f: "fit",
  enter: "fit",
  "0": "all",
  home: "all",
  m: "measure",
  "/": "search",
  p: "pin",
  o: "fold",
  escape: "clear",
  "?": "help",
};

export const KEYS: readonly { readonly keys: string; readonly does: string }[] = [
  { keys: "W  S", does: "zoom in and out; so do + and -, and Ctrl with the wheel" },
  { keys: "A  D", does: "move in time; so do dragging, and Shift with the wheel" },
  { keys: "←  →  or  ,  .", does: "the event before and after on the lane" },
  { keys: "↑  ↓", does: "the lane above and below" },
  { keys: "F  or Enter", does: "zoom to what is chosen or measured; so does a double click" },
  { keys: "0  or Home", does: "all of the recording" },
  { keys: "M", does: "measure what is chosen, or what is seen; so does dragging with Shift" },
  { keys: "/", does: "search; Enter and Shift Enter go on from there" },
  { keys: "P", does: "pin the track of what is chosen to the top, or let it go" },
  { keys: "O", does: "fold or open the track of what is chosen" },
  { keys: "Escape", does: "choose and measure nothing; close these keys" },
  { keys: "?", does: "show these keys" },
];

export function moveOf(event: {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
}): Move | undefined {
  return event.ctrlKey || event.metaKey || event.altKey ? undefined : MOVES[event.key.toLowerCase()];
}
