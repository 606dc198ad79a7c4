// What the console does beyond links and forms: it keeps times current, follows the ledger, and listens to keys.
//
// Nothing depends on it: every page is whole and every action a form. It decides nothing and holds no truth; news only
// says "look", and the page is then read again from the server. What somebody is typing is never replaced.

'use strict';

const MINUTE = 60, HOUR = 3600, DAY = 86400;

// Times, as `widgets.rs` writes them.

function span(seconds) {
  if (seconds < MINUTE) return `${Math.floor(seconds)} s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)} h`;
  return `${Math.floor(seconds / DAY)} d`;
}

function fine(seconds) {
  const two = (n) => String(Math.floor(n)).padStart(2, '0');
  if (seconds < MINUTE) return `${Math.floor(seconds)} s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min ${two(seconds % MINUTE)} s`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h ${two(seconds / MINUTE % 60)} min`;
  return `${Math.floor(seconds / DAY)} d ${two(seconds / HOUR % 24)} h`;
}

// The server's clock counts, not this machine's: each page says what time it was there.
let skew = 0;

function readClock(page) {
  const now = Date.parse(page.querySelector('meta[name="now"]')?.content);
  if (!Number.isNaN(now)) skew = now - Date.now();
}

function tick() {
  const now = Date.now() + skew;
  for (const time of document.querySelectorAll('time[data-relative]')) {
    const seconds = (now - Date.parse(time.dateTime)) / 1000;
    setText(time, seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`);
  }
  for (const time of document.querySelectorAll('time[data-lasting]')) {
    setText(time, span(Math.max(0, (now - Date.parse(time.dateTime)) / 1000)));
  }
  for (const time of document.querySelectorAll('time[data-countdown]')) {
    const left = (Date.parse(time.dateTime) - now) / 1000;
    setText(time, left <= 0 ? 'expired' : fine(left));
    time.toggleAttribute('data-soon', left * 1000 < Number(time.dataset.countdown));
  }
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// News: a line from the server, then the page again, then only the parts that differ.

const ui = { reading: false, again: false, timer: null };

// One stream for the tab that is looked at: browsers allow few connections to a server.
let source = null;

function follow() {
  if (!document.querySelector('[data-live]') || !window.EventSource || document.hidden || source) return;
  const run = location.pathname.match(/^\/console\/runs\/(run_[^/]+)$/);
  source = new EventSource(run ? `/console/news?run=${run[1]}` : '/console/news');
  // Between the drawing of the page and the opening of the stream, something may have happened.
  source.addEventListener('open', look);
  source.addEventListener('look', look);
  // What is in memory or changes without an event (a heartbeat, a resource that loads) is looked at now and then.
  const every = document.querySelector('[data-every]')?.dataset.every;
  if (every) ui.timer = setInterval(look, every * 1000);
}

function unfollow() {
  source?.close();
  source = null;
  clearInterval(ui.timer);
}

async function look() {
  if (ui.reading) {
    ui.again = true;
    return;
  }
  ui.reading = true;
  try {
    const answer = await fetch(location.href, { cache: 'no-store' });
    if (answer.redirected) location.reload();
    else if (answer.ok) swap(new DOMParser().parseFromString(await answer.text(), 'text/html'));
  } catch {
    // The server is away; the stream comes back with it and says so again.
  } finally {
    ui.reading = false;
    if (ui.again) {
      ui.again = false;
      look();
    }
  }
}

function swap(page) {
  readClock(page);
  const said = [];
  for (const old of document.querySelectorAll('[data-live]')) {
    const fresh = page.getElementById(old.id);
    if (!fresh || essence(old) === essence(fresh)) continue;
    if (old.dataset.live === 'form' && isTouched(old)) {
      said.push('This approval has changed. Reload the page to answer what it is now.');
      continue;
    }
    keepState(old, fresh);
    const focused = old.contains(document.activeElement) ? pathOf(document.activeElement) : null;
    old.replaceWith(document.adoptNode(fresh));
    if (focused) fresh.querySelector(focused)?.focus({ preventScroll: true });
    if (old.dataset.live === 'quiet') continue;
    fresh.dataset.fresh = '';
    said.push('Updated.');
  }
  document.title = page.title;
  tick();
  if (said.length) announce(said.sort((a, b) => b.length - a.length)[0]);
}

// A part without its running times, its tokens and what was opened in it: two with the same essence show the same.
function essence(part) {
  const copy = part.cloneNode(true);
  for (const time of copy.querySelectorAll('time')) time.replaceChildren(time.dateTime);
  for (const token of copy.querySelectorAll('input[name="csrf"]')) token.remove();
  for (const field of copy.querySelectorAll('details, tr, li')) field.removeAttribute(field.matches('details') ? 'open' : 'data-current');
  copy.removeAttribute('data-fresh');
  return copy.outerHTML.replace(/ data-soon(="")?/g, '');
}

function isTouched(part) {
  if (part.querySelector('details.edit[open]')) return true;
  return [...part.querySelectorAll('textarea, input:not([type="hidden"])')].some((field) =>
    field.type === 'checkbox' ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);
}

function keepState(old, fresh) {
  const before = old.querySelectorAll('details');
  fresh.querySelectorAll('details').forEach((details, n) => {
    if (before[n]) details.open = before[n].open;
  });
  const current = old.querySelector('[data-current]');
  if (current?.id) fresh.querySelector(`#${CSS.escape(current.id)}`)?.setAttribute('data-current', '');
}

function pathOf(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const row = element.closest('[id]');
  return row && element.matches('.cover') ? `#${CSS.escape(row.id)} .cover` : 'a, button, textarea';
}

function announce(text) {
  const news = document.getElementById('news');
  if (!news) return;
  // What changed is there to be seen; only who listens has to be told.
  news.classList.toggle('hidden', text === 'Updated.');
  news.textContent = text;
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => news.replaceChildren(), 30000);
}

// Keys. Never while somebody types, and never with a modifier: those belong to the browser.

function rows() {
  return [...document.querySelectorAll('[data-keys="list"] > *')];
}

function move(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.hasAttribute('data-current'));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))];
  for (const row of all) row.toggleAttribute('data-current', row === next);
  next.querySelector('.cover').focus({ preventScroll: true });
  next.scrollIntoView({ block: 'nearest' });
}

function current() {
  return document.querySelector('[data-keys="list"] > [data-current] .cover');
}

function onKey(event) {
  const typing = event.target.closest?.('input, textarea, select, dialog[open]');
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key;
  if (key === 'j') move(1);
  else if (key === 'k') move(-1);
  else if (key === 'Enter' && event.target === document.body && current()) current().click();
  else if (key === 'a') toApprove();
  else if (key === 'u') document.querySelector('[data-key="u"]')?.click();
  else if (key === '?') document.getElementById('keys')?.showModal();
  else return;
  event.preventDefault();
}

// From the list to the approval, there to its button: what is approved is always seen first.
function toApprove() {
  const here = document.getElementById('approve');
  if (here) here.focus();
  else if (current()) location.href = `${current().href}#approve`;
}

function focusTarget() {
  if (location.hash === '#approve') document.getElementById('approve')?.focus();
}

// A form goes out once; the server would take a second for the same answer all the same.
function onSubmit(event) {
  const form = event.target;
  if (form.method !== 'post') return;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = 'yes';
  event.submitter?.setAttribute('aria-busy', 'true');
  // Where no answer comes, it may be sent again.
  setTimeout(() => {
    delete form.dataset.sent;
    event.submitter?.removeAttribute('aria-busy');
  }, 10000);
}

// Digests are shown short and copied whole.
function onCopy(event) {
  const digest = document.getSelection().anchorNode?.parentElement?.closest('[data-copy]');
  if (!digest || document.getSelection().toString().trim() !== digest.textContent.trim()) return;
  event.clipboardData.setData('text/plain', digest.dataset.copy);
  event.preventDefault();
}

readClock(document);
tick();
setInterval(tick, 1000);
follow();
focusTarget();
document.addEventListener('keydown', onKey);
document.addEventListener('submit', onSubmit);
document.addEventListener('copy', onCopy);
document.addEventListener('visibilitychange', () => (document.hidden ? unfollow() : follow()));
window.addEventListener('hashchange', focusTarget);
window.addEventListener('pagehide', unfollow);
window.addEventListener('pageshow', (event) => {
  if (!event.persisted) return;
  for (const form of document.forms) delete form.dataset.sent;
  follow();
});
