/** The addresses of the server's API, in one place. All are relative to the page's own. */
import type { Parameters } from "./source";

export const RECORDINGS = "api/recordings";
export const DECLARATIONS = "api/questions";
export const SCHEMA = "api/schema";
export const SQL = "api/sql";
export const STATE = "api/state";

/** An answer: `api/answers/kernels?recording=1&by=properties`. Null means the default. */
export function answerRoute(question: string, recordings: readonly string[], parameters: Parameters): string {
  const asked = new URLSearchParams(recordings.map((one): [string, string] => ["recording", one]));
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null) asked.append(name, String(value));
  }
  return `api/answers/${encodeURIComponent(question)}?${asked}`;
}

/** Timeline data: `api/timeline/tile?recording=1&level=20&index=0&tracks=0.steps`. */
export function timelineRoute(what: string, recording: string, parameters: Parameters): string {
  const asked = new URLSearchParams({ recording });
  for (const [name, value] of Object.entries(parameters)) asked.append(name, String(value));
  return `api/timeline/${what}?${asked}`;
}
