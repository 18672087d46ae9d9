/**
 * The state of the page, all in the address after `#`: the view, its subject, and how its tables are
 * sorted and filtered. So a link shows what its sender saw, and "back" works.
 */
export interface Address {
  readonly view: string;
  readonly state: ReadonlyMap<string, string>;
}

const START = "overview";

export function parseAddress(hash: string): Address {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { view: decoded(path) || START, state: new Map(new URLSearchParams(query)) };
}

export function addressText({ view, state }: Address): string {
  const query = new URLSearchParams([...state]).toString();
  return `#/${encodeURIComponent(view)}${query ? `?${query}` : ""}`;
}

/** The same address with parts of its state changed; null and "" remove an entry. */
export function changed(address: Address, change: Readonly<Record<string, string | null>>): Address {
  const state = new Map(address.state);
  for (const [name, value] of Object.entries(change)) {
    if (value === null || value === "") state.delete(name);
    else state.set(name, value);
  }
  return { view: address.view, state };
}

/** The state that is kept between views: the recording. */
export const KEPT = ["recording", "before"] as const;

export function toView(
  address: Address,
  view: string,
  state: Readonly<Record<string, string>> = {},
): Address {
  const kept = KEPT.flatMap((name): [string, string][] => {
    const value = address.state.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  return { view, state: new Map([...kept, ...Object.entries(state)]) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
