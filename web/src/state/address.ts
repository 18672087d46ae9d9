/**
 * The state of the page, all of it in the address behind `#`: the view, what it is about, and how its
 * tables are sorted and filtered. So a link shows what its sender saw, and "back" works.
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

/** The same address with some of its state changed; null and "" take an entry away. */
export function changed(address: Address, change: Readonly<Record<string, string | null>>): Address {
  const state = new Map(address.state);
  for (const [name, value] of Object.entries(change)) {
    if (value === null || value === "") state.delete(name);
    else state.set(name, value);
  }
  return { view: address.view, state };
}

/** What stays when one goes to another view: which recording it is about. */
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
