/** A value that parts of the page observe. Changes are drawn once per frame. */

import { useEffect, useState } from "./vendor/htm-preact.js";

/**
 * @template T
 * @typedef {{get: () => T, set: (value: T) => void, update: (change: (value: T) => T) => void,
 *   subscribe: (listener: () => void) => () => void}} Store
 */

/** @type {Set<() => void>} */
const dirty = new Set();
let isScheduled = false;

function flush() {
  isScheduled = false;
  const listeners = [...dirty];
  dirty.clear();
  for (const listener of listeners) listener();
}

/** A hidden tab has no frames, but its title and its live regions should still be right. */
function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  if (document.visibilityState === "visible") requestAnimationFrame(flush);
  else setTimeout(flush, 100);
}

/**
 * @template T
 * @param {T} initial
 * @returns {Store<T>}
 */
export function createStore(initial) {
  let value = initial;
  /** @type {Set<() => void>} */
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const listener of listeners) dirty.add(listener);
      schedule();
    },
    update(change) {
      this.set(change(value));
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
        dirty.delete(listener);
      };
    },
  };
}

/**
 * Draw a component again when a part of a store changes.
 * @template T, U
 * @param {Store<T>} store
 * @param {(value: T) => U} select
 * @returns {U}
 */
export function useStore(store, select) {
  const [, redraw] = useState(0);
  const selected = select(store.get());
  useEffect(() => {
    let last = select(store.get());
    if (last !== selected) redraw((count) => count + 1);
    return store.subscribe(() => {
      const next = select(store.get());
      if (next === last) return;
      last = next;
      redraw((count) => count + 1);
    });
  }, [store]);
  return selected;
}
