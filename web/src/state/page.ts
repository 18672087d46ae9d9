/** State shared by all views: the source, the recordings, the declarations and the address. */
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

/** Called with +1 when something starts to wait for an answer, and with -1 when the wait ends. */
export const WaitContext = createContext<(by: 1 | -1) => void>(() => {});

export function usePage(): Page {
  const page = useContext(PageContext);
  if (page === null) throw new Error("a view outside of the page");
  return page;
}

/** The recording that the views show. */
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

/** The current address, updated when it changes. */
export function useAddress(): Address {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    follow(); // it may have changed since the last draw
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
 * Changes the state of this view without an entry in the history, because filters are typed letter by
 * letter. Late changes, after a switch to another view, are ignored.
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
 * The answer to a question about the chosen recording, or about given ones. When recordings have grown it
 * is asked again, and the previous answer stays visible until then. A question that is no longer needed is
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
  // In a layout effect, because a normal one runs after the next paint and would delay the request.
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

/** Tells the page, and so screen readers, that part of it is still loading. */
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
