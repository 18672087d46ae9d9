/** What every view can reach: the source, the recordings, the declarations and the address. */
import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Declaration, Parameters, Recording, Reply, RowOf, Source } from "../source/source";
import { NoAnswer } from "../source/source";
import { type Address, addressText, changed, parseAddress, toView } from "./address";
import type { Live } from "./live";

export interface Page {
  readonly source: Source;
  readonly recordings: readonly Recording[];
  readonly declarations: readonly Declaration[];
  readonly address: Address;
  readonly live: Live;
}

export const PageContext = createContext<Page | null>(null);

/** Told +1 by what begins to wait for an answer, and -1 when that has come or nobody waits any more. */
export const WaitContext = createContext<(by: 1 | -1) => void>(() => {});

export function usePage(): Page {
  const page = useContext(PageContext);
  if (page === null) throw new Error("a view outside of the page");
  return page;
}

/** The recording that the views are about. */
export function useRecording(): Recording {
  const { address, recordings } = usePage();
  const wanted = address.state.get("recording");
  const found = recordings.find((one) => one.id === wanted) ?? recordings[0];
  if (found === undefined) throw new NoAnswer("There is no recording here.");
  return found;
}

export function useDeclaration(question: string): Declaration | undefined {
  return usePage().declarations.find((one) => one.name === question);
}

/** The address as it changes. */
export function useAddress(): Address {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    follow(); // it may have changed since it was drawn
    return () => removeEventListener("hashchange", follow);
  }, []);
  return parseAddress(hash);
}

/** The address of another view, for a link. */
export function useLink(): (view: string, state?: Readonly<Record<string, string>>) => string {
  const { address } = usePage();
  return (view, state) => addressText(toView(address, view, state));
}

/**
 * Changes the state of this view without an entry in the history: filters are typed letter by letter. What
 * comes late, when another view is shown, changes nothing.
 */
export function useChange(): (change: Readonly<Record<string, string | null>>) => void {
  const { address } = usePage();
  return (change) => {
    const now = parseAddress(location.hash);
    if (now.view !== address.view) return;
    history.replaceState(null, "", addressText(changed(now, change)));
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
}

export type Asked<R> =
  | { readonly state: "waiting" }
  | { readonly state: "failed"; readonly error: NoAnswer }
  | { readonly state: "answered"; readonly value: R };

/**
 * The answer to a question about the chosen recording, or about those that are given. When recordings have
 * grown it is asked again, and the one before stays in sight until then. What nobody looks at any more is
 * ended, on the server too.
 */
export function useAnswer<Q extends string>(
  question: Q,
  parameters: Parameters = {},
  recordings?: readonly string[],
): Asked<Reply<RowOf<Q>>> {
  const { source, live } = usePage();
  const recording = useRecording().id;
  const about = recordings ?? recording;
  const [asked, setAsked] = useState<{ key: string; value: Asked<Reply<RowOf<Q>>> } | null>(null);
  const key = JSON.stringify([about, question, parameters]);
  // In the layout, as an effect comes after the next picture: until then nothing would be asked.
  useLayoutEffect(() => {
    const ends = new AbortController();
    const show = (value: Asked<Reply<RowOf<Q>>>) => {
      if (!ends.signal.aborted) setAsked({ key, value });
    };
    source.ask(about, question, parameters, ends.signal).then(
      (value) => show({ state: "answered", value }),
      (reason: unknown) => show({ state: "failed", error: asNoAnswer(reason) }),
    );
    return () => ends.abort();
  }, [key, source, live.version]);
  const waits = asked?.key !== key;
  useWait(waits);
  return waits ? { state: "waiting" } : asked.value;
}

/** Tells the page, and so screen readers, that something of it is still to come. */
export function useWait(waits: boolean): void {
  const wait = useContext(WaitContext);
  useLayoutEffect(() => {
    if (!waits) return undefined;
    wait(1);
    return () => wait(-1);
  }, [waits, wait]);
}

function asNoAnswer(reason: unknown): NoAnswer {
  return reason instanceof NoAnswer ? reason : new NoAnswer(`A bug in StepScope's page: ${reason}`);
}
