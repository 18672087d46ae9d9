/** Answers from the data block of a report. */
import { EmbeddedTimeline, type TimelineEvents } from "./embedded-timeline";
import {
  type Declaration,
  type DeclaredParameter,
  NoAnswer,
  type Parameters,
  type Recording,
  type Reply,
  type RowOf,
  replyKey,
  type Source,
  type Value,
  withoutDefaults,
} from "./source";
import type { Layout, TimelineAnswers } from "./timeline";

const VERSION = 1;

interface LeftOut {
  readonly recordings: readonly string[];
  readonly question: string;
  readonly parameters: Parameters;
  readonly why: string;
  /** What would give an answer; empty if asking the recording would. */
  readonly hint: string;
}

export interface Block {
  readonly version: number;
  readonly stepscope: string;
  readonly recordings: readonly Recording[];
  readonly declarations: readonly Declaration[];
  /** By `replyKey`: base64 of deflated JSON. */
  readonly replies: Readonly<Record<string, string>>;
  readonly left_out: readonly LeftOut[];
  /** By recording; the events are base64 of deflated JSON, unpacked when the timeline is shown. */
  readonly timelines: Readonly<Record<string, Layout>>;
  readonly timeline_events: Readonly<Record<string, string>>;
}

export class EmbeddedSource implements Source {
  readonly kind = "report";
  readonly sql = null;
  readonly state = null;
  readonly #block: Block;
  readonly #left: ReadonlyMap<string, LeftOut>;
  readonly #asked = new Map<string, Promise<unknown>>();
  readonly #timelines = new Map<string, Promise<EmbeddedTimeline>>();

  constructor(text: string) {
    this.#block = JSON.parse(text) as Block;
    if (this.#block.version !== VERSION) {
      throw new NoAnswer("The data in this file are of another version of StepScope than its page.");
    }
    this.#left = new Map(
      this.#block.left_out.map((one) => [replyKey(one.recordings, one.question, one.parameters), one]),
    );
  }

  async recordings(): Promise<readonly Recording[]> {
    return this.#block.recordings;
  }

  async declarations(): Promise<readonly Declaration[]> {
    return this.#block.declarations;
  }

  async ask<Q extends string>(
    recording: string | readonly string[],
    question: Q,
    parameters: Parameters = {},
  ): Promise<Reply<RowOf<Q>>> {
    const declared = this.#block.declarations.find((one) => one.name === question);
    const asked = withoutDefaults(declared, parameters);
    const key = replyKey(recording, question, asked);
    const packed = this.#block.replies[key];
    if (packed === undefined) {
      const picking = declared?.parameters.find((one) => one.picks && one.name in asked);
      if (picking === undefined) throw this.#absent(question, declared, asked, this.#left.get(key));
      const { [picking.name]: value, ...others } = asked;
      const all = await this.ask(recording, question, others);
      if (!all.answer.columns.some((one) => one.name === picking.picks?.[0]))
        throw this.#absent(question, declared, asked, this.#left.get(key));
      const some = picked(all, picking, value, () => this.#command(question, declared, asked));
      return some as Reply<RowOf<Q>>;
    }
    let reply = this.#asked.get(key);
    if (reply === undefined) {
      reply = inflate(packed).then((text) => JSON.parse(text));
      this.#asked.set(key, reply);
    }
    return (await reply) as Reply<RowOf<Q>>;
  }

  async timeline<W extends keyof TimelineAnswers>(
    recording: string,
    what: W,
    parameters: Parameters = {},
  ): Promise<TimelineAnswers[W]> {
    const layout = this.#block.timelines[recording];
    const packed = this.#block.timeline_events[recording];
    if (layout === undefined || packed === undefined)
      throw new NoAnswer(`There is no recording ${recording}.`);
    let opened = this.#timelines.get(recording);
    if (opened === undefined) {
      opened = inflate(packed).then(
        (text) => new EmbeddedTimeline(layout, JSON.parse(text) as TimelineEvents),
      );
      this.#timelines.set(recording, opened);
    }
    return (await opened).answer(what, parameters);
  }

  #absent(
    question: string,
    declared: Declaration | undefined,
    asked: Parameters,
    left: LeftOut | undefined,
  ): NoAnswer {
    if (left?.hint) return new NoAnswer(left.why, left.hint);
    const command = `Ask the recording: ${this.#command(question, declared, asked)}`;
    return left === undefined
      ? new NoAnswer("This answer is not in this report.", command)
      : new NoAnswer(`This answer is not in this report: ${left.why}`, command);
  }

  #command(question: string, declared: Declaration | undefined, asked: Parameters): string {
    const options = Object.entries(asked).map(([name, value]) => ` --${name.replaceAll("_", "-")} ${value}`);
    return `stepscope ${question} ${SOURCES[declared?.recordings ?? "one"]}${options.join("")}`;
  }
}

/** The rows of a report that a value selects; if the report lacks some, the answer says so. */
function picked(
  reply: Reply,
  { picks }: DeclaredParameter,
  value: Value | undefined,
  command: () => string,
): Reply {
  const { answer, rows_total: total } = reply;
  const [since = "", until] = picks ?? [];
  const rows = answer.rows.filter((row) =>
    until === undefined
      ? row[since] === value
      : Number(row[since] ?? -Infinity) <= Number(value) && Number(value) < Number(row[until] ?? Infinity),
  );
  const held = answer.rows.length;
  const all = until === undefined ? `All of ${value}` : "All that were alive then";
  const missing = `These are among the first ${held.toLocaleString("en")} of ${total.toLocaleString("en")} rows, which are in this report. ${all}: \`${command()}\``;
  const note = held < total ? [answer.note, missing].filter(Boolean).join(" ") : answer.note;
  return {
    ...reply,
    answer: { ...answer, rows, ...(note === undefined ? {} : { note }) },
    conclusions: [],
    rows_total: rows.length,
  };
}

/** The recordings in a command, by how many its question takes. */
const SOURCES = { one: "SRC", two: "BEFORE AFTER", several: "SRC..." } as const;

async function inflate(packed: string): Promise<string> {
  const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(plain).text();
}
