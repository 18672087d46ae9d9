/** Follows growing recordings: polls their server while the page is visible. */
import { useEffect, useReducer, useState } from "preact/hooks";
import { NoAnswer, type Source } from "../source/source";

export interface Live {
  /** Increases whenever there is something new. */
  readonly version: number;
  /** Time of the last change; null if nothing has changed since the page was opened. */
  readonly since: Date | null;
  /** Why the page may be out of date, in words; empty if it is not. */
  readonly problem: string;
  /** Requests everything again. */
  readonly again: () => void;
}

type Seen = Omit<Live, "again">;

const EVERY_MS = 2500;

export function useLive(source: Source): Live {
  const [live, setLive] = useState<Seen>({ version: 0, since: null, problem: "" });
  const [tries, retry] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const { state } = source;
    if (state === null) return undefined;
    let first: number | null = null; // the page shows this version or a later one
    let before = 0;
    const look = () => {
      if (document.visibilityState !== "visible") return;
      state().then(
        ({ version, problem, lost }) => {
          first ??= version;
          if (lost > before) retry(undefined);
          before = lost;
          const later = version - first;
          setLive((known) => next(known, later, problem ?? ""));
        },
        (reason: unknown) =>
          setLive((known) =>
            next(known, known.version, reason instanceof NoAnswer ? reason.message : String(reason)),
          ),
      );
    };
    look();
    const again = setInterval(look, EVERY_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(again);
      document.removeEventListener("visibilitychange", look);
    };
  }, [source]);
  return { ...live, version: live.version + tries, again: () => retry(undefined) };
}

function next(known: Seen, version: number, problem: string): Seen {
  if (known.version === version && known.problem === problem) return known;
  return { version, problem, since: known.version === version ? known.since : new Date() };
}
