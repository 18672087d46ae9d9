/**
 * The one door through which views get data. A report answers from a block in the file, a server over
 * HTTP; no view knows which.
 */
import type { Rows } from "../questions.generated";
import type { TimelineAnswers } from "./timeline";

export type Value = string | number | boolean | null;
export type Row = Readonly<Record<string, Value | undefined>>;
export type Parameters = Readonly<Record<string, Value>>;

export interface AnswerColumn {
  readonly name: string;
  readonly type: "int" | "float" | "text" | "bool";
  readonly unit: string;
  readonly meaning: string;
}

export interface Check {
  readonly rank: number;
  readonly span: number;
  readonly check: string;
  readonly severity: "error" | "warning" | "note";
  readonly count: number;
  readonly explanation: string;
}

/** What `stepscope QUESTION --json` prints. */
export interface Answer<R extends Row = Row> {
  readonly schema_version: number;
  readonly question: string;
  readonly asks: string;
  readonly sources: readonly string[];
  readonly columns: readonly AnswerColumn[];
  readonly rows: readonly R[];
  readonly checks: readonly Check[];
  readonly note?: string;
}

/** An answer and what the page needs beside it. */
export interface Reply<R extends Row = Row> {
  readonly answer: Answer<R>;
  /** What the rows come to, in sentences. */
  readonly said: readonly string[];
  /** How many rows there are in all, where `answer` has the first of them. */
  readonly rows_total: number;
  /** By column of kernels: full names and short ones. */
  readonly labels: Readonly<Record<string, readonly (readonly [string, string])[]>>;
}

export interface DeclaredColumn extends AnswerColumn {
  readonly shown: boolean | "varying";
  readonly sums: boolean;
  readonly advises: boolean;
  readonly moment: boolean;
  readonly kernels: boolean;
}

export interface DeclaredParameter {
  readonly name: string;
  readonly type: AnswerColumn["type"];
  readonly meaning: string;
  readonly default: Value;
  readonly choices: readonly string[];
  /** Whether its choices are different answers, each of which a report holds. */
  readonly form: boolean;
  /**
   * Of a value that picks some of the rows as they are: the column that has it, or, of a moment, those that say from when
   * and until when a row lasts.
   */
  readonly picks: readonly [string] | readonly [string, string] | null;
}

export interface Declaration {
  readonly name: string;
  readonly asks: string;
  readonly recordings: "one" | "two" | "several";
  readonly needs: "host" | "device";
  readonly drawing: string;
  readonly added_by: string | null;
  readonly parameters: readonly DeclaredParameter[];
  readonly columns: readonly DeclaredColumn[];
  readonly explanation: string;
  readonly fills: string;
  /** Filters of events that it takes, by the value of `by`; under "" where it has none. */
  readonly filters: Readonly<Record<string, readonly string[]>>;
}

export interface Recording {
  readonly id: string;
  readonly name: string;
  /** What it has rows of: tables, and of events each kind, as in `host_event python`. */
  readonly holds: readonly string[];
}

/** A question that cannot be answered, in words for people: an error of the server's or of a report's in the same form. */
export class NoAnswer extends Error {
  readonly hint: string;

  constructor(
    message: string,
    hint = "",
    /** Whether it may be otherwise in a moment: the same may be asked again. */
    readonly passing = false,
  ) {
    super(/[.!?…]$/.test(message) ? capital(message) : `${capital(message)}.`);
    this.hint = capital(hint);
  }
}

/** With a capital, unless it begins with a command or a name in code. A hint may end with a command, and so gets no point. */
function capital(words: string): string {
  return /^(?!stepscope |pip |make )[a-z]+[\s,;:]/.test(words)
    ? `${words.charAt(0).toUpperCase()}${words.slice(1)}`
    : words;
}

/** The row type of a question of ours; of a plug-in's question nothing is known. */
export type RowOf<Q extends string> = Q extends keyof Rows ? Rows[Q] : Row;

export interface SchemaTable {
  readonly name: string;
  readonly meaning: string;
  readonly columns: readonly { readonly name: string; readonly type: string; readonly meaning: string }[];
}

/** Questions that people type. */
export interface SqlSource {
  schema(): Promise<readonly SchemaTable[]>;
  /** Raises NoAnswer; ends the query where the signal comes. */
  ask(recording: string, sql: string, signal: AbortSignal): Promise<Reply>;
}

/** How often the recordings were opened again because their files grew, and what went wrong with that. */
export interface SourceState {
  readonly version: number;
  readonly problem: string | null;
  /** How many requests of this page got no answer: when a lost server is back, what it did not answer is asked again. */
  readonly lost: number;
}

export interface Source {
  readonly kind: "report" | "server";
  /** Null where there are answers and no tables. */
  readonly sql: SqlSource | null;
  /** Null where nothing changes. */
  readonly state: (() => Promise<SourceState>) | null;
  recordings(): Promise<readonly Recording[]>;
  declarations(): Promise<readonly Declaration[]>;
  /** Raises NoAnswer. Parameters that have their defaults may be left out; the signal ends the question. */
  ask<Q extends string>(
    recording: string | readonly string[],
    question: Q,
    parameters?: Parameters,
    signal?: AbortSignal,
  ): Promise<Reply<RowOf<Q>>>;
  /** What the timeline of a recording draws. Raises NoAnswer. */
  timeline<W extends keyof TimelineAnswers>(
    recording: string,
    what: W,
    parameters?: Parameters,
    signal?: AbortSignal,
  ): Promise<TimelineAnswers[W]>;
}

/** An answer's name: the same text as `page_data.key` in Python makes. */
export function replyKey(
  recording: string | readonly string[],
  question: string,
  parameters: Parameters = {},
): string {
  const recordings = typeof recording === "string" ? [recording] : recording;
  const asked = Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([recordings, question, asked]);
}

/** The parameters that differ from the question's defaults. */
export function withoutDefaults(declared: Declaration | undefined, parameters: Parameters): Parameters {
  const defaults = new Map(declared?.parameters.map((one) => [one.name, one.default]));
  return Object.fromEntries(
    Object.entries(parameters).filter(
      ([name, value]) => value !== null && value !== (defaults.get(name) ?? null),
    ),
  );
}
