/**
 * The parts of a step: their names, their colours (custom properties of the style sheet, the same
 * everywhere), and their order: a moment belongs to the first that applies.
 */
export interface PartOfStep {
  readonly id: string;
  readonly title: string;
  readonly colour: string;
  readonly meaning: string;
}

export const PARTS: readonly PartOfStep[] = [
  { id: "kernel", title: "Kernel", colour: "--kernel", meaning: "a kernel computes on a device" },
  { id: "copy", title: "Memcpy", colour: "--memcpy", meaning: "data are copied" },
  { id: "memset", title: "Memset", colour: "--memset", meaning: "memory is filled" },
  {
    id: "communication",
    title: "Communication",
    colour: "--communication",
    meaning: "only communication runs on the device",
  },
  {
    id: "runtime",
    title: "Runtime",
    colour: "--runtime",
    meaning: "the host is in runtime calls, the device idle",
  },
  {
    id: "dataloader",
    title: "DataLoader",
    colour: "--dataloader",
    meaning: "the host waits for the next batch",
  },
  {
    id: "cpu_exec",
    title: "CPU Exec",
    colour: "--cpu-exec",
    meaning: "the host runs operators, the device idle",
  },
  { id: "other", title: "Other", colour: "--other", meaning: "none of these" },
];

/** The parts of a step in a job that times itself, in the order in which they run. */
export const PHASES: readonly PartOfStep[] = [
  {
    id: "input_wait",
    title: "Wait for the batch",
    colour: "--dataloader",
    meaning: "the host waits for the next batch",
  },
  {
    id: "host_to_device",
    title: "Copy to the device",
    colour: "--memcpy",
    meaning: "the host copies the batch to the device",
  },
  { id: "forward", title: "Forward", colour: "--kernel", meaning: "the host runs the forward pass" },
  {
    id: "backward",
    title: "Backward",
    colour: "--communication",
    meaning: "the host runs the backward pass",
  },
  { id: "optimizer", title: "Optimizer", colour: "--cpu-exec", meaning: "the host runs the optimizer" },
  { id: "residual", title: "None of the phases", colour: "--other", meaning: "the rest of the step" },
];

/** The present value of a custom property: canvases need it, and it follows the system's theme. */
export function colourOf(property: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(property).trim();
}
