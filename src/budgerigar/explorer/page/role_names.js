// Roles of heads and abilities of models by name, in the language of the page.

import { t } from "./i18n.js";

const NAMES = { previous: "role.previous", next: "role.next", self: "role.self", first: "role.first", last: "role.last", duplicate: "role.duplicate", induction: "role.induction",
  reference: "role.reference", reference_needed: "role.reference_needed", reference_verb: "role.reference_verb", gap: "role.gap", subject: "role.subject", adjective: "role.adjective", bracket: "role.bracket",
  code_bracket: "role.code_bracket", alignment: "role.alignment" };

/** The short name of a role; `otherwise`: the library's, for one that the page does not know. */
export function roleName(key, otherwise = key) {
  return NAMES[key] ? t(NAMES[key]) : otherwise;
}

const WHATS = { previous: "what.previous", next: "what.next", self: "what.self", first: "what.first", last: "what.last", duplicate: "what.duplicate", induction: "what.induction",
  reference: "what.reference", reference_needed: "what.reference_needed", reference_verb: "what.reference_verb", gap: "what.gap", subject: "what.subject", adjective: "what.adjective", bracket: "what.bracket",
  code_bracket: "what.bracket", alignment: "what.alignment" };

/** The row that is asked, and what is right for it; `otherwise`: the library's words. */
export function roleWhat(key, otherwise) {
  return WHATS[key] ? t(WHATS[key]) : otherwise;
}

/** A badge's name: a role, or a habit (broad, confident). */
export function badgeName(badge) {
  const habits = { broad: t("role.broad"), confident: t("role.confident") };
  return habits[badge] ?? roleName(badge);
}

/** An ability's name; a loss is one of stories or one of translations. */
export function abilityName({ ability, name }) {
  const names = { copy: t("ability.copy"), gap: t("ability.gap"), fill: t("ability.fill"), loss: t(name === "next token of a translation" ? "ability.translation" : "ability.stories") };
  return names[ability] ?? name;
}
