/** Observes the width of an element. */
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** An element's reference and its width in pixels; 0 until it is drawn. */
export function useWidth(): [RefObject<HTMLDivElement | null>, number] {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    const follow = new ResizeObserver(() => setWidth(box.clientWidth));
    follow.observe(box);
    setWidth(box.clientWidth);
    return () => follow.disconnect();
  }, []);
  return [place, width];
}
