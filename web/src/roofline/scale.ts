/** Axes in powers of ten, and the roofs above the points. */
export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly number[];
  /** Where a value stands, from 0 to 1. */
  readonly at: (value: number) => number;
}

/** A scale of whole powers of ten around the values, all of which are above 0. */
export function logScale(values: readonly number[]): Scale {
  const powers = values.filter((one) => one > 0).map(Math.log10);
  const low = powers.length === 0 ? 0 : Math.floor(Math.min(...powers));
  const high = Math.max(Math.ceil(Math.max(...powers, low)), low + 1);
  const ticks = Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
  return { low: 10 ** low, high: 10 ** high, ticks, at: (value) => (Math.log10(value) - low) / (high - low) };
}

export interface Roof {
  readonly name: string;
  /** Operations a second that the device can do. */
  readonly peak: number;
  /** Bytes a second that its memory can. */
  readonly bandwidth: number;
}

/** What is attainable at an intensity, in operations a second. */
export function attainable(roof: Roof, intensity: number): number {
  return Math.min(roof.peak, roof.bandwidth * intensity);
}

/** Operations a byte from which on the device computes and no longer waits for its memory. */
export function ridge(roof: Roof): number {
  return roof.peak / roof.bandwidth;
}
