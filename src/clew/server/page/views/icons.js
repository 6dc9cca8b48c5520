/** Small drawings, 16 × 16, in the colour of the text. */

import { html } from "../vendor/htm-preact.js";

const PATHS = {
  plus: "M8 3v10M3 8h10",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  close: "M4 4l8 8M12 4l-8 8",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5l3 3",
  send: "M8 13V3M3.5 7.5L8 3l4.5 4.5",
  stop: "M4.5 4.5h7v7h-7z",
  check: "M3 8.5l3.5 3.5L13 5",
  cross: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  undo: "M3 6.5h7a3.5 3.5 0 0 1 0 7H6M3 6.5L6 3.5M3 6.5l3 3",
  pin: "M6 2.5h4l-.5 4 2 2.5h-7l2-2.5zM8 9v4.5",
  compact: "M8 1.5v4M5.5 3.5L8 6l2.5-2.5M8 14.5v-4M5.5 12.5L8 10l2.5 2.5M2.5 8h11",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1",
  auto: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  help: "M6 6a2 2 0 1 1 3 1.7c-.7.4-1 .8-1 1.6M8 11.8v.2",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  down: "M8 3v10M3.5 8.5L8 13l4.5-4.5",
  chevron: "M6 3.5L10.5 8 6 12.5",
  trash: "M3 4.5h10M6 4.5v-2h4v2M4.5 4.5l.5 9h6l.5-9",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  image: "M2.5 3.5h11v9h-11zM5.5 7a1 1 0 1 0 0-2 1 1 0 0 0 0 2zM3 12l3.5-3.5L9 11l2-2 2.5 2.5",
  fork: "M4.5 4.5v7M4.5 6.5c0 3 7 1 7 4M4.5 4.5a1 1 0 1 0 0-2 1 1 0 0 0 0 2zM4.5 13.5a1 1 0 1 0 0-2 1 1 0 0 0 0 2zM11.5 12.5a1 1 0 1 0 0-2 1 1 0 0 0 0 2z",
};

/** @param {{name: keyof typeof PATHS}} props */
export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>
`;

/** The sign of the program: a ball of thread. */
export const Logo = () => html`
  <svg class="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <circle cx="15" cy="16" r="11.5" />
    <path class="thread" d="M6.5 13.5c5-5 12-5 17 0M5.6 18.5c5.5-6 13.5-6 19 0M9.5 23.5c3.5-4 8-4 11.5 0" />
    <path class="end" d="M24 23c2 2.5 3.5 4 6 4" />
  </svg>
`;
