/** Axes in powers of ten, and the roofs above the points. */
export interface Scale {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly number[];
  /** The position of a value, from 0 to 1. */
  readonly at: (value: number) => number;
}

/** A scale of whole powers of ten around positive values. */
export function logScale(values: readonly number[]): Scale {
  const powers = values.filter((one) => one > 0).map(Math.log10);
  const low = powers.length === 0 ? 0 : Math.floor(Math.min(...powers));
  const high = Math.max(Math.ceil(Math.max(...powers, low)), low + 1);
  const ticks = Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
  return { low: 10 ** low, high: 10 ** high, ticks, at: (value) => (Math.log10(value) - low) / (high - low) };
}

export interface Roof {
  readonly name: string;
  /** The device's peak operations per second. */
  readonly peak: number;
  /** The bandwidth of its memory in bytes per second. */
  readonly bandwidth: number;
}

/** The attainable operations per second at an intensity. */
export function attainable(roof: Roof, intensity: number): number {
  return Math.min(roof.peak, roof.bandwidth * intensity);
}

/** Operations per byte above which the device is limited by computing instead of memory. */
export function ridge(roof: Roof): number {
  return roof.peak / roof.bandwidth;
}
