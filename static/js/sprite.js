/* Every icon (i-) and status shape (s-), once for all pages: parts of a page refer to them with <use>, badges and
   glyphs by class. It runs as the first part of the body: shapes of a file that <use> names would be drawn a frame
   after the page. */
document.currentScript.insertAdjacentHTML(
  "afterend",
  `<svg hidden aria-hidden="true">
  <symbol id="s-ok" viewBox="0 0 12 12"><circle cx="6" cy="6" r="4" /></symbol>
  <symbol id="s-catch" viewBox="0 0 12 12"><path d="M1.5 2.5 6 6 1.5 9.5z M6 2.5 10.5 6 6 9.5z" /></symbol>
  <symbol id="s-behind" viewBox="0 0 12 12"><path d="M6 1.3 11.2 10.5H.8z" /></symbol>
  <symbol id="s-stalled" viewBox="0 0 12 12"><path d="M2.5 1.5h2.6v9H2.5zM6.9 1.5h2.6v9H6.9z" /></symbol>
  <symbol id="s-stopped" viewBox="0 0 12 12"><path d="M1.8 1.8h8.4v8.4H1.8z" /></symbol>
  <symbol id="s-rewound" viewBox="0 0 12 12"><path d="M10.5 2.5 6 6l4.5 3.5z M6 2.5 1.5 6 6 9.5z" /></symbol>
  <symbol id="s-skipped" viewBox="0 0 12 12"><path d="M1.5 2 7.5 6l-6 4z M8.5 2h2v8h-2z" /></symbol>
  <symbol id="s-lost" viewBox="0 0 12 12">
    <path fill-rule="evenodd"
      d="M6 .4 11.6 6 6 11.6.4 6zM4.6 3.7l-.9.9L5.1 6 3.7 7.4l.9.9L6 6.9l1.4 1.4.9-.9L6.9 6l1.4-1.4-.9-.9L6 5.1z"/>
  </symbol>
  <symbol id="s-offline" viewBox="0 0 12 12">
    <circle cx="6" cy="6" r="4.1" fill="none" stroke-width="1.6" />
    <path d="M3.1 8.9 8.9 3.1" stroke-width="1.6" />
  </symbol>
  <symbol id="s-never" viewBox="0 0 12 12">
    <circle cx="6" cy="6" r="4.2" fill="none" stroke-width="1.6" stroke-dasharray="2.2 2.1" />
  </symbol>
  <symbol id="s-invalid" viewBox="0 0 12 12">
    <path fill-rule="evenodd" d="M3.3.9h5.4L11.4 6 8.7 11.1H3.3L.6 6zM5.3 2.9v3.9h1.4V2.9zM5.3 7.7v1.4h1.4V7.7z" />
  </symbol>
  <symbol id="s-unknown" viewBox="0 0 12 12">
    <path d="M3.2 4.2a2.8 2.6 0 1 1 4.3 2.1C6.5 7 6 7.3 6 8.1" fill="none" stroke-width="1.7" stroke-linecap="round"/>
    <circle cx="6" cy="10.4" r="1.1" />
  </symbol>
  <symbol id="i-overview" viewBox="0 0 16 16">
    <path d="M2.5 9.5a5.5 5.5 0 0 1 11 0M8 9.5 10.5 6M2.5 12.5h11" />
  </symbol>
  <symbol id="i-topics" viewBox="0 0 16 16"><path d="M2.5 4h11M2.5 8h11M2.5 12h7" /></symbol>
  <symbol id="i-groups" viewBox="0 0 16 16">
    <circle cx="6" cy="5.5" r="2.5" />
    <path d="M1.8 13c.4-2.4 2-3.7 4.2-3.7s3.8 1.3 4.2 3.7M10.5 3.3a2.4 2.4 0 0 1 0 4.5M12 9.7c1.3.5 2 1.7 2.2 3.3" />
  </symbol>
  <symbol id="i-messages" viewBox="0 0 16 16"><path d="M2.5 3.5h11v8h-6l-3 2.5v-2.5h-2z" /></symbol>
  <symbol id="i-dead" viewBox="0 0 16 16">
    <path d="M2 9.5h3.2l1 2h3.6l1-2H14M2 9.5 4 3h8l2 6.5v4H2zM6.5 5l3 3M9.5 5l-3 3" />
  </symbol>
  <symbol id="i-rebalance" viewBox="0 0 16 16">
    <path d="M3 5h9.5M10 2.5 12.5 5 10 7.5M13 11H3.5M6 8.5 3.5 11 6 13.5" />
  </symbol>
  <symbol id="i-brokers" viewBox="0 0 16 16">
    <rect x="2.5" y="2.5" width="11" height="4.5" rx="1" />
    <rect x="2.5" y="9" width="11" height="4.5" rx="1" />
    <path d="M5 4.75h.01M5 11.25h.01" />
  </symbol>
  <symbol id="i-operations" viewBox="0 0 16 16">
    <path d="m2.5 4 1.2 1.2L6 3M2.5 8.5l1.2 1.2L6 7.5M8.5 4.5h5M8.5 9h5M8.5 13h5M2.8 13h2.7" />
  </symbol>
  <symbol id="i-reports" viewBox="0 0 16 16">
    <path d="M2.5 13.5v-11M2.5 13.5h11M5.5 11V8M8.5 11V4.5M11.5 11V6.5" />
  </symbol>
  <symbol id="i-alerts" viewBox="0 0 16 16">
    <path d="M4 7a4 4 0 0 1 8 0c0 3 1.3 4 1.3 4H2.7S4 10 4 7M6.7 13.3a1.4 1.4 0 0 0 2.6 0" />
  </symbol>
  <symbol id="i-access" viewBox="0 0 16 16">
    <circle cx="5" cy="10.5" r="2.8" />
    <path d="m7 8.5 6-6M11 4.5l2 2M9 6.5l1.5 1.5" />
  </symbol>
  <symbol id="i-activity" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.7" /><path d="M8 4.7V8l2.3 1.5" /></symbol>
  <symbol id="i-search" viewBox="0 0 16 16"><circle cx="7" cy="7" r="4.5" /><path d="m10.5 10.5 3.2 3.2" /></symbol>
  <symbol id="i-updown" viewBox="0 0 16 16"><path d="m5 6 3-3 3 3M5 10l3 3 3-3" /></symbol>
  <symbol id="i-right" viewBox="0 0 16 16"><path d="m6 3.5 4.5 4.5L6 12.5" /></symbol>
  <symbol id="i-down" viewBox="0 0 16 16"><path d="M3.5 6 8 10.5 12.5 6" /></symbol>
  <symbol id="i-language" viewBox="0 0 16 16">
    <circle cx="8" cy="8" r="5.5" />
    <path d="M2.5 8h11M8 2.5c-3.3 3.3-3.3 7.7 0 11c3.3-3.3 3.3-7.7 0-11" />
  </symbol>
  <symbol id="i-theme" viewBox="0 0 16 16">
    <circle cx="8" cy="8" r="5.5" />
    <path d="M8 2.5v11a5.5 5.5 0 0 0 0-11" fill="currentColor" />
  </symbol>
  <symbol id="i-more" viewBox="0 0 16 16"><path d="M3.5 8h.01M8 8h.01M12.5 8h.01" stroke-width="2.2" /></symbol>
  <symbol id="i-menu" viewBox="0 0 16 16"><path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" /></symbol>
  <symbol id="i-pause" viewBox="0 0 16 16"><path d="M5.5 3.5v9M10.5 3.5v9" stroke-width="2" /></symbol>
  <symbol id="i-play" viewBox="0 0 16 16"><path d="M5 3.2v9.6L12.5 8z" /></symbol>
  <symbol id="i-stop" viewBox="0 0 16 16"><rect x="3.5" y="3.5" width="9" height="9" rx="1" /></symbol>
  <symbol id="i-undo" viewBox="0 0 16 16"><path d="M3 6.5h6.5a3.5 3.5 0 0 1 0 7H6M5.5 4 3 6.5 5.5 9" /></symbol>
  <symbol id="i-download" viewBox="0 0 16 16"><path d="M8 2.5v8M4.7 7.5 8 10.8l3.3-3.3M2.5 13.5h11" /></symbol>
  <symbol id="i-plus" viewBox="0 0 16 16"><path d="M8 3v10M3 8h10" /></symbol>
  <symbol id="i-check" viewBox="0 0 16 16"><path d="m3 8.5 3.3 3.3L13 4.8" /></symbol>
  <symbol id="i-x" viewBox="0 0 16 16"><path d="m4 4 8 8M12 4l-8 8" /></symbol>
  <symbol id="i-filter" viewBox="0 0 16 16"><path d="M2.5 3.5h11L9.5 8.5v4l-3 1.5V8.5z" /></symbol>
  <symbol id="i-columns" viewBox="0 0 16 16">
    <rect x="2.5" y="3" width="11" height="10" rx="1" />
    <path d="M6.2 3v10M9.8 3v10" />
  </symbol>
  <symbol id="i-refresh" viewBox="0 0 16 16"><path d="M13 8a5 5 0 1 1-1.5-3.5M13.5 2.5v3h-3" /></symbol>
  <symbol id="i-info" viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.7" /><path d="M8 7.3v3.7M8 5h.01" /></symbol>
  <symbol id="i-warn" viewBox="0 0 16 16"><path d="M8 2 14.3 13H1.7zM8 6.3v3.2M8 11.2h.01" /></symbol>
  <symbol id="i-print" viewBox="0 0 16 16">
    <path d="M4.5 6V2.5h7V6M4.5 11.5h-2V6h11v5.5h-2M4.5 9.5h7v4h-7z" />
  </symbol>
  <symbol id="i-key" viewBox="0 0 16 16">
    <rect x="1.5" y="4" width="13" height="8.5" rx="1.5" />
    <path d="M4 7h.01M6.7 7h.01M9.3 7h.01M12 7h.01M5 10h6" />
  </symbol>
  <symbol id="i-send" viewBox="0 0 16 16"><path d="M13.5 2.5 2.5 7l4.5 2 2 4.5zM7 9l3-3" /></symbol>
  <symbol id="i-user" viewBox="0 0 16 16">
    <circle cx="8" cy="5.5" r="2.6" />
    <path d="M3 13.5c.5-2.7 2.3-4 5-4s4.5 1.3 5 4" />
  </symbol>
  <symbol id="i-clusters" viewBox="0 0 16 16">
    <circle cx="8" cy="3.5" r="1.8" />
    <circle cx="3.5" cy="12" r="1.8" />
    <circle cx="12.5" cy="12" r="1.8" />
    <path d="M7.2 5.2 4.3 10.4M8.8 5.2l2.9 5.2M5.3 12h5.4" />
  </symbol>
  <symbol id="i-copy" viewBox="0 0 16 16">
    <rect x="5.5" y="5.5" width="8" height="8" rx="1" />
    <path d="M10.5 5.5v-3h-8v8h3" />
  </symbol>
  <symbol id="i-sort" viewBox="0 0 10 10"><path d="M5 9 1.5 3.5h7z" /></symbol>
  <symbol id="i-asc" viewBox="0 0 10 10"><path d="M5 1 8.5 6.5h-7z" /></symbol>
</svg>`,
);
/* The same shapes as masks of badges and glyphs, beside the sheet of chosen columns (theme.js). */
{
  const masks = new CSSStyleSheet();
  document.adoptedStyleSheets.push(masks);
  masks.replaceSync(
    [...document.querySelectorAll("symbol[id^=s-]")]
      .map(({ id, innerHTML }) => {
        const root = 'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12" stroke="#000" stroke-width="0"',
          shape = `<svg ${root}>${innerHTML}</svg>`;
        return `.badge.${id}::before, .glyph.${id} {
          content: ""; mask: url("data:image/svg+xml,${encodeURIComponent(shape)}")
        }`;
      })
      .join(""),
  );
}
