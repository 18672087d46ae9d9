/** Answers from the server that the page came from. */
import { answerRoute, DECLARATIONS, RECORDINGS } from "./routes";
import {
  type Declaration,
  NoAnswer,
  type Parameters,
  type Recording,
  type Reply,
  type RowOf,
  type Source,
} from "./source";

/** What the server sends where it cannot answer. */
interface ServerError {
  readonly message?: string;
  readonly hint?: string;
}

export class ServerSource implements Source {
  readonly kind = "server";

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
  ): Promise<Reply<RowOf<Q>>> {
    const recordings = typeof recording === "string" ? [recording] : recording;
    return get<Reply<RowOf<Q>>>(answerRoute(question, recordings, parameters));
  }
}

async function get<T>(route: string): Promise<T> {
  let response: Response;
  try {
    response = await fetch(route, { headers: { Accept: "application/json" } });
  } catch {
    throw new NoAnswer("The server does not answer.", "Is `stepscope view` still running?");
  }
  if (!response.ok) {
    const error = (await response.json().catch(() => ({}))) as ServerError;
    throw new NoAnswer(error.message ?? `The server answered ${response.status}.`, error.hint ?? "");
  }
  return (await response.json()) as T;
}
