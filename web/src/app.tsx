/** The frame: the list of views, the choice of recording, and the view that the address names. */
import { Component, type ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Missing } from "./parts/missing";
import type { Declaration, Recording, Source } from "./source/source";
import { NoAnswer } from "./source/source";
import { addressText } from "./state/address";
import { useLive } from "./state/live";
import {
  PageContext,
  useAddress,
  useChange,
  useLink,
  usePage,
  useRecording,
  WaitContext,
} from "./state/page";
import { QuestionView } from "./views/generic";
import { GroupView } from "./views/group";
import { emptyOf, emptyQuestion, otherQuestions, VIEWS } from "./views/list";
import { OWN } from "./views/own";

interface Opened {
  readonly recordings: readonly Recording[];
  readonly declarations: readonly Declaration[];
}

export function App({ source }: { readonly source: Source }) {
  const address = useAddress();
  const live = useLive(source);
  const [opened, setOpened] = useState<Opened | NoAnswer | null>(null);
  useLayoutEffect(() => {
    Promise.all([source.recordings(), source.declarations()]).then(
      ([recordings, declarations]) => setOpened({ recordings, declarations }),
      (reason: unknown) => setOpened(reason instanceof NoAnswer ? reason : new NoAnswer(String(reason))),
    );
  }, [source, live.version]);
  if (opened === null) return <p class="waiting">Reading …</p>;
  if (opened instanceof NoAnswer) return <Problem error={opened} again={live.again} />;
  return (
    <PageContext.Provider value={{ source, address, live, ...opened }}>
      <Frame />
    </PageContext.Provider>
  );
}

function Frame() {
  const { address } = usePage();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  const waiting = useRef(0);
  // Set by hand, because a state would redraw every view for each of its answers.
  const wait = useCallback((by: 1 | -1) => {
    waiting.current += by;
    main.current?.setAttribute("aria-busy", String(waiting.current > 0));
  }, []);
  useEffect(() => {
    main.current?.scrollTo(0, 0);
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [address.view]);
  return (
    <div class="frame">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the view
      </button>
      <Side />
      <main ref={main} tabIndex={-1} data-shows={addressText(address)} aria-busy="false">
        <WaitContext.Provider value={wait}>
          <Guard key={address.view}>
            <CurrentView />
          </Guard>
        </WaitContext.Provider>
      </main>
    </div>
  );
}

function CurrentView() {
  const { address, declarations } = usePage();
  const view = VIEWS.find((one) => one.id === address.view);
  const Own = OWN[address.view];
  if (Own !== undefined) return <Own />;
  if (view !== undefined && (view.questions.length > 1 || view.questions[0] !== view.id)) {
    return <GroupView view={view} />;
  }
  if (declarations.some((one) => one.name === address.view)) return <QuestionView question={address.view} />;
  return (
    <Problem error={new NoAnswer(`There is no view ${address.view}.`, "Choose one of those on the left.")} />
  );
}

function Side() {
  const page = usePage();
  const { address, declarations } = page;
  const link = useLink();
  const recording = useRecording();
  const others = [...otherQuestions(declarations)];
  const entry = (id: string, title: string, why: string | null, shows: string) => (
    <li key={id}>
      <a
        href={link(id)}
        aria-current={address.view === id ? "page" : undefined}
        class={why === null ? undefined : "unfilled"}
        title={why ?? shows}
      >
        {title}
      </a>
    </li>
  );
  return (
    <header class="side">
      <p class="brand">StepScope</p>
      <RecordingChoice />
      <Following />
      <nav aria-label="Views">
        <ul>{VIEWS.map((one) => entry(one.id, one.title, emptyOf(one, page, recording), one.shows))}</ul>
        <details open={others.flatMap(([, members]) => members).some(({ name }) => name === address.view)}>
          <summary>All other questions</summary>
          {others.map(([group, members]) => (
            <section key={group}>
              <h2>{group}</h2>
              <ul class="small">
                {members.map((one) =>
                  entry(one.name, one.name, emptyQuestion(one, page.recordings, recording), one.asks),
                )}
              </ul>
            </section>
          ))}
        </details>
      </nav>
    </header>
  );
}

/** Whether the page follows a running job, and when it was last updated. */
function Following() {
  const { live } = usePage();
  if (live.problem !== "") return <p class="following severe">Not up to date: {live.problem}</p>;
  if (live.since === null) return null;
  return <p class="following muted">Follows the recording; last change {live.since.toLocaleTimeString()}</p>;
}

function RecordingChoice() {
  const { recordings, address } = usePage();
  const change = useChange();
  const only = recordings[0];
  if (recordings.length <= 1)
    return (
      <p class="recording" title={only?.name}>
        {only?.name}
      </p>
    );
  return (
    <label class="recording">
      <span class="hidden">Recording</span>
      <select
        value={address.state.get("recording") ?? only?.id ?? ""}
        title={recordings.find((one) => one.id === address.state.get("recording"))?.name ?? only?.name}
        onChange={(event) => change({ recording: event.currentTarget.value })}
      >
        {recordings.map((one) => (
          <option key={one.id} value={one.id}>
            {one.name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Catches errors of a view and shows them there. */
class Guard extends Component<{ children: ComponentChildren }, { error: NoAnswer | null }> {
  override state = { error: null };

  static override getDerivedStateFromError(error: unknown) {
    return { error: error instanceof NoAnswer ? error : new NoAnswer(`A bug in StepScope's page: ${error}`) };
  }

  override render() {
    return this.state.error === null ? this.props.children : <Problem error={this.state.error} />;
  }
}

function Problem({ error, again }: { readonly error: NoAnswer; readonly again?: () => void }) {
  return (
    <Missing message={error.message} hint={error.hint} again={error.passing ? again : undefined} urgent />
  );
}
