/** Answers from the page's server. */
import { answerRoute, DECLARATIONS, RECORDINGS, SCHEMA, SQL, STATE, timelineRoute } from "./routes";
import {
  type Declaration,
  NoAnswer,
  type Parameters,
  type Recording,
  type Reply,
  type RowOf,
  type SchemaTable,
  type Source,
  type SourceState,
  type SqlSource,
} from "./source";
import type { TimelineAnswers } from "./timeline";

type Asked = Omit<RequestInit, "signal"> & { readonly signal?: AbortSignal | undefined };

/** The server's error response. */
interface ServerError {
  readonly message: string;
  readonly hint: string;
  readonly slug: string;
}

let lost = 0;

export class ServerSource implements Source {
  readonly kind = "server";
  readonly sql: SqlSource = {
    schema: () => get<readonly SchemaTable[]>(SCHEMA),
    ask: (recording, sql, signal) =>
      get<Reply>(SQL, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ recording, sql }),
        signal,
      }),
  };

  readonly state = async () => ({ ...(await get<Omit<SourceState, "lost">>(STATE)), lost });

  recordings(): Promise<readonly Recording[]> {
    return get<readonly Recording[]>(RECORDINGS);
  }

  declarations(): Promise<readonly Declaration[]> {
    return get<readonly Declaration[]>(DECLARATIONS);
  }

  ask<Q extends string>(
    recording: string | readonly string[],
    question: Q,
    parameters: Parameters = {},
    signal?: AbortSignal,
  ): Promise<Reply<RowOf<Q>>> {
    const recordings = typeof recording === "string" ? [recording] : recording;
    return get<Reply<RowOf<Q>>>(answerRoute(question, recordings, parameters), { signal });
  }

  timeline<W extends keyof TimelineAnswers>(
    recording: string,
    what: W,
    parameters: Parameters = {},
    signal?: AbortSignal,
  ): Promise<TimelineAnswers[W]> {
    return get<TimelineAnswers[W]>(timelineRoute(what, recording, parameters), { signal });
  }
}

async function get<T>(route: string, more: Asked = {}): Promise<T> {
  const headers = { Accept: "application/json", ...more.headers };
  try {
    const response = await fetch(route, { ...more, signal: more.signal ?? null, headers });
    if (response.ok) return (await response.json()) as T;
    // The response of a proxy that does not reach the server is not JSON.
    const error = (await response.json().catch(() => null)) as ServerError | null;
    if (error !== null) throw new NoAnswer(error.message, error.hint, isPassing(response.status, error.slug));
  } catch (reason) {
    if (reason instanceof NoAnswer) throw reason;
    if (more.signal?.aborted) throw new NoAnswer("Stopped.");
  }
  lost += 1;
  throw new NoAnswer("The server does not answer.", "Is `stepscope view` still running?", true);
}

function isPassing(status: number, slug: string): boolean {
  return status >= 500 || slug === "question-stopped";
}
