/**
 * The conversation. Blocks are drawn in groups; a group that is far from what is visible is only
 * an empty box of its height, so that a long session stays fast.
 */

import { Component, h, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { duration } from "../format.js";
import { useStore } from "../store.js";
import { Block, LiveThinking } from "./blocks.js";
import { Composer } from "./composer.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { Questions } from "./question.js";
import { Todos } from "./todos.js";

const GROUP = 24;
const NEAR = "1400px 0px";
const GUESSED_HEIGHT = 72;

/** @typedef {import("../session.js").OpenSession} OpenSession @typedef {import("../transcript.js").Block} BlockData */

/** A group of blocks that is drawn again only if one of them changed. */
class Group extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    const { blocks, tools, isNear } = this.props;
    if (next.isNear !== isNear || next.blocks.length !== blocks.length) return true;
    if (next.tools !== tools && blocks.some((/** @type {BlockData} */ one) => one.outcome === "running")) return true;
    return blocks.some((/** @type {BlockData} */ one, /** @type {number} */ at) => one !== next.blocks[at]);
  }

  render() {
    const { id, blocks, tools, isNear, height, actions } = this.props;
    if (!isNear) {
      return html`<div class="group" data-group=${id} style=${{ height: `${height ?? blocks.length * GUESSED_HEIGHT}px` }}></div>`;
    }
    return html`
      <div class="group" data-group=${id}>
        ${blocks.map((/** @type {BlockData} */ block) => h(Block, { key: block.key, block, tool: tools[block.callId], actions }))}
      </div>
    `;
  }
}

/** @param {BlockData[]} blocks @param {number} origin the place of the first block that the page had */
function makeGroups(blocks, origin) {
  /** @type {{id: number, blocks: BlockData[]}[]} */
  const groups = [];
  blocks.forEach((block, at) => {
    const id = Math.floor((at - origin) / GROUP);
    if (!groups.length || groups[groups.length - 1].id !== id) groups.push({ id, blocks: [] });
    groups[groups.length - 1].blocks.push(block);
  });
  return groups;
}

/** @param {{session: OpenSession, jump: {entry: number, count: number}, actions: any}} props */
export function Chat({ session, jump, actions }) {
  const transcript = useStore(session.store, (state) => state.transcript);
  const isLoaded = useStore(session.store, (state) => state.isLoaded);
  const isLoadingOlder = useStore(session.store, (state) => state.isLoadingOlder);
  const groups = useMemo(() => makeGroups(transcript.blocks, transcript.origin), [transcript.blocks, transcript.origin]);
  const scroller = useRef(/** @type {any} */ (null));
  const { near, heights } = useNearGroups(scroller, groups);
  const { isStuck, stick } = useStickyEnd(scroller, transcript);
  useOlderPages(session, scroller, transcript.firstEntry, isLoaded);
  useJump(session, scroller, jump, groups, near);

  return html`
    <div class="chat">
      <div class="scroller" ref=${scroller} tabindex="0" role="log" aria-label="Conversation" aria-busy=${!isLoaded}>
        <div class="column">
          ${isLoadingOlder && html`<p class="loading-older" role="status">Loading earlier messages…</p>`}
          ${isLoaded && !transcript.blocks.length && !transcript.answer && html`<${Welcome} />`}
          ${groups.map(({ id, blocks }, at) => h(Group, {
            key: id, id, blocks, tools: transcript.tools, actions, height: heights.get(id),
            isNear: near.has(id) || at >= groups.length - 2,
          }))}
          <${Live} transcript=${transcript} />
        </div>
      </div>
      ${!isStuck && html`<button type="button" class="to-end" onClick=${stick}><${Icon} name="down" />Latest</button>`}
      <div class="dock">
        <div class="column">
          <${Todos} items=${transcript.todos} isRunning=${transcript.since !== null} />
          <${Questions} session=${session} requests=${transcript.requests} />
          <${Composer} session=${session} actions=${actions} onSend=${stick} />
        </div>
      </div>
    </div>
  `;
}

const Welcome = () => html`
  <div class="welcome">
    <h2>A new session</h2>
    <p>Write a prompt below. <kbd>/</kbd> lists commands, <kbd>@</kbd> attaches a file, <kbd>!</kbd> runs a shell command, <kbd>?</kbd> shows the keys.</p>
  </div>
`;

/** Text that is arriving, and what the session does meanwhile. @param {{transcript: any}} props */
function Live({ transcript }) {
  const { answer, thinking, since, compaction, retry, requests } = transcript;
  const isWorking = since !== null;
  return html`
    ${thinking && html`<${LiveThinking} key=${thinking.key} text=${thinking.text} since=${thinking.since} />`}
    ${answer && html`<article class="block answer live" key=${answer.key} aria-label="Answer"><${Markdown} text=${answer.text} /></article>`}
    ${(isWorking || compaction) && html`
      <p class="status-line" role="status">
        <span class="pulse"></span>
        ${retry ? `${retry.reason}; attempt ${retry.attempt} of ${retry.attempts}` : compaction || (requests.length ? "waiting for your answer" : "working")}
        ${isWorking && html` <${Elapsed} since=${since} />`}
      </p>
    `}
  `;
}

/** @param {{since: number}} props */
function Elapsed({ since }) {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, []);
  return html`<span class="elapsed" aria-hidden="true">${now - since >= 2 ? duration(now - since) : ""}</span>`;
}

/** Know which groups are near the visible part, and how high each was when it was drawn. */
function useNearGroups(/** @type {any} */ scroller, /** @type {{id: number}[]} */ groups) {
  const [near, setNear] = useState(/** @type {Set<number>} */ (new Set()));
  const heights = useRef(/** @type {Map<number, number>} */ (new Map())).current;
  const observer = useRef(/** @type {IntersectionObserver | null} */ (null));
  useLayoutEffect(() => {
    observer.current = new IntersectionObserver(
      (changes) => {
        for (const { target, boundingClientRect } of changes) {
          const id = Number(/** @type {HTMLElement} */ (target).dataset.group);
          if (!/** @type {HTMLElement} */ (target).style.height) heights.set(id, boundingClientRect.height);
        }
        setNear((before) => {
          const next = new Set(before);
          for (const { target, isIntersecting } of changes) {
            const id = Number(/** @type {HTMLElement} */ (target).dataset.group);
            if (isIntersecting) next.add(id);
            else next.delete(id);
          }
          return next;
        });
      },
      { root: scroller.current, rootMargin: NEAR },
    );
    return () => observer.current?.disconnect();
  }, []);
  const first = groups[0]?.id;
  useLayoutEffect(() => {
    for (const element of scroller.current.querySelectorAll(".group")) observer.current?.observe(element);
  }, [groups.length, first]);
  return { near, heights };
}

/** Stay at the end while the user has not scrolled away from it. */
function useStickyEnd(/** @type {any} */ scroller, /** @type {any} */ transcript) {
  const [isStuck, setStuck] = useState(true);
  const stuck = useRef(true);
  useEffect(() => {
    const element = scroller.current;
    let last = element.scrollTop;
    const onScroll = () => {
      const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 48;
      // Only the user scrolls up; growing content never does.
      if (isAtEnd) stuck.current = true;
      else if (element.scrollTop < last - 2) stuck.current = false;
      last = element.scrollTop;
      setStuck(stuck.current);
    };
    element.addEventListener("scroll", onScroll, { passive: true });
    const observer = new ResizeObserver(() => {
      if (stuck.current) element.scrollTop = element.scrollHeight;
    });
    observer.observe(element);
    observer.observe(element.firstElementChild);
    return () => {
      element.removeEventListener("scroll", onScroll);
      observer.disconnect();
    };
  }, []);
  useLayoutEffect(() => {
    if (stuck.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [transcript]);
  const stick = () => {
    stuck.current = true;
    setStuck(true);
    scroller.current.scrollTop = scroller.current.scrollHeight;
  };
  return { isStuck, stick };
}

/** Load the page before when the user comes near the beginning, and keep what is visible in place. */
function useOlderPages(/** @type {OpenSession} */ session, /** @type {any} */ scroller, /** @type {number} */ firstEntry, /** @type {boolean} */ isLoaded) {
  const before = useRef({ entry: 0, height: 0 });
  useLayoutEffect(() => {
    const element = scroller.current;
    const { entry, height } = before.current;
    if (entry > firstEntry && element.scrollTop < 400) element.scrollTop += element.scrollHeight - height;
    before.current = { entry: firstEntry, height: element.scrollHeight };
  }, [firstEntry]);
  useEffect(() => {
    const element = scroller.current;
    const onScroll = () => {
      if (element.scrollTop > 800 || !isLoaded) return;
      before.current.height = element.scrollHeight;
      session.loadOlder();
    };
    element.addEventListener("scroll", onScroll, { passive: true });
    return () => element.removeEventListener("scroll", onScroll);
  }, [session, isLoaded]);
}

/** Show the block of an entry; older pages are loaded until it is there. */
function useJump(/** @type {OpenSession} */ session, /** @type {any} */ scroller, /** @type {{entry: number, count: number}} */ jump, /** @type {any[]} */ groups, /** @type {Set<number>} */ near) {
  const done = useRef(0);
  useEffect(() => {
    if (!jump.entry || done.current === jump.count) return;
    const { firstEntry } = session.store.get().transcript;
    if (jump.entry < firstEntry && firstEntry > 1) {
      session.loadOlder(jump.entry);
      return;
    }
    const group = groups.find((one) => one.blocks.some((/** @type {BlockData} */ block) => block.entryId >= jump.entry));
    const element = scroller.current.querySelector(`[data-group="${group?.id}"]`);
    if (!group || !element) return;
    const block = group.blocks.find((/** @type {BlockData} */ one) => one.entryId >= jump.entry);
    const target = element.querySelector(`[data-entry="${block.entryId}"]`);
    if (target) done.current = jump.count;
    (target ?? element).scrollIntoView({ block: target ? "center" : "start" });
    if (target) flash(target);
  }, [jump, groups, near]);
}

/** @param {HTMLElement} element */
function flash(element) {
  element.classList.add("flash");
  setTimeout(() => element.classList.remove("flash"), 1600);
}
