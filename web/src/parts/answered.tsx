/** The frame of every answer: progress, errors, and how far to trust it. */
import type { ComponentChildren } from "preact";
import { held } from "../format/units";
import type { Answer, Check, Reply, Row } from "../source/source";
import { type Asked, useDeclaration, usePage } from "../state/page";
import { Missing } from "./missing";
import { Words } from "./words";

interface Props<R extends Row> {
  readonly asked: Asked<Reply<R>>;
  /** Shows rows without a table; the note and the checks are shown elsewhere. */
  readonly bare?: boolean;
  readonly children: (reply: Reply<R>) => ComponentChildren;
}

export function Answered<R extends Row>({ asked, bare = false, children }: Props<R>) {
  const { live } = usePage();
  if (asked.state === "waiting") {
    return (
      <p class="waiting" role="status">
        Reading …
      </p>
    );
  }
  if (asked.state === "failed") {
    const { message, hint, passing } = asked.error;
    return <Missing message={message} hint={hint} again={passing ? live.again : undefined} />;
  }
  const { answer } = asked.value;
  if (answer.rows.length === 0) return <Empty answer={answer} />;
  if (bare) return <>{children(asked.value)}</>;
  return (
    <>
      <Checks checks={answer.checks.filter(isSevere)} />
      {asked.value.conclusions.length > 0 && (
        <div class="conclusions">
          {asked.value.conclusions.map((one) => (
            <p key={one}>{held(one)}</p>
          ))}
        </div>
      )}
      {children(asked.value)}
      <LeftOut reply={asked.value} />
      {answer.note !== undefined && (
        <p class="note">
          <Words text={answer.note} />
        </p>
      )}
      <Checks checks={answer.checks.filter((one) => !isSevere(one))} />
    </>
  );
}

/** An answer without rows: why, and which recording option would fill it. */
export function Empty({ answer }: { readonly answer: Answer }) {
  const declared = useDeclaration(answer.question);
  return (
    <div class="empty" role="status">
      <p>
        <Words text={answer.note ?? "No matching rows in this recording."} />
      </p>
      {answer.note === undefined && declared !== undefined && declared.fills !== "" && (
        <p class="muted">
          <Words text={declared.fills} />
        </p>
      )}
      <Checks checks={answer.checks} />
    </div>
  );
}

function LeftOut({ reply }: { readonly reply: Reply }) {
  const held = reply.answer.rows.length;
  if (held >= reply.rows_total) return null;
  return (
    <p class="note">
      This page has the first {held.toLocaleString("en")} of {reply.rows_total.toLocaleString("en")} rows. All
      of them: <code>stepscope {reply.answer.question} SRC --csv</code>
    </p>
  );
}

function isSevere(check: Check): boolean {
  return check.severity === "error" || check.severity === "warning";
}

/** The checks that affect an answer; equal ones of several ranks once. */
export function Checks({ checks, most }: { readonly checks: readonly Check[]; readonly most?: number }) {
  if (checks.length === 0) return null;
  const alike = new Map<string, Check[]>();
  for (const one of checks) {
    const name = `${one.check} ${one.severity}`;
    alike.set(name, [...(alike.get(name) ?? []), one]);
  }
  const groups = [...alike.values()].map((group) => ({
    group,
    worst: group.reduce((a, b) => (b.count > a.count ? b : a)),
  }));
  groups.sort((a, b) => Number(isSevere(b.worst)) - Number(isSevere(a.worst)));
  return (
    <ul class="checks">
      {groups.slice(0, most).map(({ group, worst }) => {
        const ranks = [...new Set(group.map((one) => one.rank))];
        return (
          <li key={worst.check} class={isSevere(worst) ? "check severe" : "check"}>
            <span aria-hidden="true">{isSevere(worst) ? "⚠" : "·"}</span> <b>{worst.check}</b>
            {ranks.length > 1 && <span class="muted"> (ranks {some(ranks)})</span>}: {worst.explanation}
          </li>
        );
      })}
      {most !== undefined && groups.length > most && <li class="muted">and {groups.length - most} more</li>}
    </ul>
  );
}

const MOST_RANKS = 8;

function some(ranks: readonly unknown[]): string {
  const more = ranks.length > MOST_RANKS ? [`and ${ranks.length - MOST_RANKS} more`] : [];
  return [...ranks.slice(0, MOST_RANKS), ...more].join(", ");
}
