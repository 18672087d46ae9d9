/**
 * The only interface through which views get data. A report answers from a block in the file, a server over
 * HTTP; views do not know which.
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

/** The output of `stepscope QUESTION --json`. */
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

/** An answer with what the page needs besides. */
export interface Reply<R extends Row = Row> {
  readonly answer: Answer<R>;
  /** The answer's sentences. */
  readonly conclusions: readonly string[];
  /** The number of all rows, if `answer` has only the first ones. */
  readonly rows_total: number;
  /** For columns of kernels: full names, each with its short one. */
  readonly labels: Readonly<Record<string, readonly (readonly [string, string])[]>>;
}

export interface DeclaredColumn extends AnswerColumn {
  readonly visible: boolean | "varying";
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
  /** Whether its choices are different answers, all held by a report. */
  readonly form: boolean;
  /**
   * For a value that selects rows: the column that has it, or, for a moment, the columns with a row's start
   * and end.
   */
  readonly picks: readonly [string] | readonly [string, string] | null;
}

/** What is drawn above a question's table: by the kinds of its columns, a map of ranks and steps, or nothing. */
export type DeclaredChart = "columns" | "map" | "none";

export interface Declaration {
  readonly name: string;
  readonly asks: string;
  /** The heading under which lists show it; empty for a plug-in's without one. */
  readonly group: string;
  readonly recordings: "one" | "two" | "several";
  readonly needs: "host" | "device";
  readonly chart: DeclaredChart;
  readonly added_by: string | null;
  readonly parameters: readonly DeclaredParameter[];
  readonly columns: readonly DeclaredColumn[];
  readonly explanation: string;
  readonly fills: string;
  /** Filters of events that it takes, by the value of `by`; under "" without forms. */
  readonly filters: Readonly<Record<string, readonly string[]>>;
}

export interface Recording {
  readonly id: string;
  readonly name: string;
  /** What it has rows of: tables, and each kind of event, as in `host_event python`. */
  readonly holds: readonly string[];
}

/** Why a question cannot be answered, as text: an error of the server or a report in the same form. */
export class NoAnswer extends Error {
  readonly hint: string;

  constructor(
    message: string,
    hint = "",
    /** Whether asking again may succeed. */
    readonly passing = false,
  ) {
    super(/[.!?…]$/.test(message) ? capital(message) : `${capital(message)}.`);
    this.hint = capital(hint);
  }
}

/** Capitalises a text unless it starts with a command or code. A hint may end with a command: no full stop is added. */
function capital(words: string): string {
  return /^(?!stepscope |pip |make )[a-z]+[\s,;:]/.test(words)
    ? `${words.charAt(0).toUpperCase()}${words.slice(1)}`
    : words;
}

/** The row type of a question of ours; unknown for a plug-in's question. */
export type RowOf<Q extends string> = Q extends keyof Rows ? Rows[Q] : Row;

export interface SchemaTable {
  readonly name: string;
  readonly meaning: string;
  readonly columns: readonly { readonly name: string; readonly type: string; readonly meaning: string }[];
}

/** Questions as users type them. */
export interface SqlSource {
  schema(): Promise<readonly SchemaTable[]>;
  /** Throws NoAnswer; the signal ends the query. */
  ask(recording: string, sql: string, signal: AbortSignal): Promise<Reply>;
}

/** How often the recordings were reopened because their files grew, and the error if that failed. */
export interface SourceState {
  readonly version: number;
  readonly problem: string | null;
  /** The number of failed requests: when a lost server is back, these are repeated. */
  readonly lost: number;
}

export interface Source {
  readonly kind: "report" | "server";
  /** Null if there are answers but no tables. */
  readonly sql: SqlSource | null;
  /** Null if nothing changes. */
  readonly state: (() => Promise<SourceState>) | null;
  recordings(): Promise<readonly Recording[]>;
  declarations(): Promise<readonly Declaration[]>;
  /** Throws NoAnswer. Parameters with default values may be omitted; the signal ends the question. */
  ask<Q extends string>(
    recording: string | readonly string[],
    question: Q,
    parameters?: Parameters,
    signal?: AbortSignal,
  ): Promise<Reply<RowOf<Q>>>;
  /** The timeline of a recording. Throws NoAnswer. */
  timeline<W extends keyof TimelineAnswers>(
    recording: string,
    what: W,
    parameters?: Parameters,
    signal?: AbortSignal,
  ): Promise<TimelineAnswers[W]>;
}

/** An answer's key: the same text as `page_data.key` in Python. */
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
