"""The English sentences of the stories, as templates (marks: see `story_grammar`)."""

from __future__ import annotations

MEMORY_OPENINGS = (
    "{Name}/S had/V a {pet}/T when {he}/S was/V young/P .",
    "{Name}/S had/V a {pet}/T when {he}/S was/V young/P .",
    "When {he}/S was/V a child , {Name}/S had/V a {pet}/T .",
    "When {he}/S was/V young/P , {Name}/S kept/V a {pet}/T .",
    "As a child , {Name}/S had/V a {pet}/T .",
    "Long ago , {Name}/S got/V a {pet}/T from {his} {relative} .",
)
MEMORY_LOOKS = (
    "It/SI had/V {look} .",
    "It/SI had/V {look} and lived/V {home} .",
    "It/SI lived/V {home} and had/V {look} .",
    "The {pet}/ST had/V {look} .",
    "The {pet}/ST was/V {size}/P and had/V {look} .",
)
MEMORY_PETS = (
    "It/SI liked/V {food} .",
    "The {pet}/ST liked/V {food} most .",
    "Every morning the {pet}/ST {act_past} {home} .",
    "Every evening {he}/S gave/V the {pet}/T some {food} .",
    "{He}/S gave/V it/I {food} and it/SI {act_past} .",
    "{He}/S played/V with the {pet}/T after school .",
    "The {pet}/ST did not eat/V the {food}/F because it/SI was/V not hungry/P .",
    "The {pet}/ST did not eat/V the {food}/F because {food_pronoun} .",
    "The {pet}/ST ( {a_look} ) slept/V {home} .",
    "When {he}/S was/V sad/P , {he}/S talked/V to the {pet}/T .",
    "The {pet}/ST was/V happy/P and {he}/S was/V happy/P too .",
)
RECALLS = (
    "Sometimes {he}/S thought/V of the {pet}/T .",
    "{He}/S told/V {his} friends about the {pet}/T .",
    "{He}/S drew/V a picture of the {pet}/T .",
    "In a dream {he}/S saw/V the {pet}/T again .",
    "{He}/S still missed/V the {pet}/T .",
    "{His} {relative}/S asked/V about the {pet}/T .",
)
OTHERS = (
    "A neighbour/S had/V a {other} .",
    "A {other}/S sat/V on the wall .",
    "In the park {he}/S saw/V a {other} .",
    "{His} {relative}/S bought/V a {other} .",
    "A man/S sold/V a {other} at the market .",
    "A friend/S came/V with a {other} .",
)
MEMORY_FILLER = (
    "Years/S went/V by .",
    "The winter/S came/V and snow/S fell/V on the {place} .",
    "Spring/S came/V and the trees/S turned/V green/P .",
    "The summer/S was/V long/P and {warm}/P .",
    "In autumn the wind/S was/V {windy}/P .",
    "Then {he}/S moved/V to a {big}/A town/N by the sea .",
    "{He}/S learned/V to {skill} and to {skill} .",
    "{He}/S learned/V to {skill} at school .",
    "{He}/S worked/V in a {shop} and got/V up early .",
    "{He}/S found/V work in a {shop} near the {place} .",
    "{He}/S bought/V a {colour}/A {thing}/NF and took/V it/G home .",
    "{He}/S lost/V the {thing}/F , but {his} {relative}/S found/V it/G .",
    "The {thing}/SF was/V {colour}/P , and it/SG was/V {big}/P .",
    "On {day} {he}/S baked/V bread for the neighbours .",
    "On {day} {he}/S walked/V to the {place} with {his} {relative} .",
    "On {day} {he}/S stayed/V at home and read/V a {big}/A book/N .",
    "{He}/S wrote/V a {long}/A letter/N to {his} {relative} .",
    "{He}/S painted/V the door {colour}/A and the wall {colour}/A .",
    "The house/S had/V a {colour}/A door/N and a {big}/A garden/N .",
    "{He}/S planted/V roses and {plant} in the garden .",
    "{His} {relative}/S ( a {job} ) lived/V in the city .",
    "{His} {relative}/S came/V for tea and told/V a {long}/A story/N .",
    "The train/SF ( it/SG was/V late/P again ) stopped/V at the bridge .",
    "{His} friend/S ( a {job} ( and a {job} ) ) sang/V in the {open} .",
    "Once {he}/S got/V lost in the {open} and a {job}/S helped/V {him} .",
    "At night {he}/S looked/V at the moon over the {place} .",
    "{He}/S met/V a {job} who/S came/V from a {big}/A town/N .",
    "The {job}/S was/V {feeling}/P because the day/S was/V long/P .",
    "One day {he}/S sold/V the {colour}/A {thing}/N to a {job} .",
    "In the evening {he}/S cooked/V {food} and {food} .",
    "The bus/S was/V {colour}/P and full/P of people .",
    "{He}/S {was}/V {feeling}/P , and the days/S were/V {long}/P .",
    "The old/A {job}/NS made/V a {colour}/A {thing}/N .",
    "Every year {he}/S went/V to the {place} in summer .",
    "The river/S was/V {river}/P and the boats/S were/V {colour}/P .",
    "With {his} {relative} {he}/S built/V a {big}/A boat/N .",
)
GAPS = ("But {he}/S always remembered/V that {pet}/T from {his} childhood .",)
OWNER_GAPS = ("But {Name}/S always remembered/V that {pet}/T from {his} childhood .",)
MEMORY_ENDINGS = (
    "It/SI was/V {his} best/A friend/N .",
    "It/SI had/V {look} , and {he}/S loved/V it/I .",
    "When {he}/S thought/V of it/I , {he}/S was/V happy/P .",
)

TODAY_OPENINGS = (
    "{Name}/S has/V a {pet}/T ; it/SI has/V {look} .",
    "{Name}/S has/V a {pet}/T ; it/SI lives/V {home} .",
    "{Name}/S has/V a {size}/A {pet}/NT ; it/SI has/V {look} .",
)
TODAY_LOOKS = (
    "The {pet}/ST {act_now} {home} .",
    "The {pet}/ST is/V {size}/P , and it/SI likes/V {food} .",
    "It/SI is/V {size}/P and {feeling}/P .",
)
TODAY_PETS = (
    "Every morning it/SI {act_now} {home} .",
    "When the {pet}/ST is/V hungry/P , {he}/S gives/V it/I {food} .",
    "The {pet}/ST ( it/SI is/V {feeling}/P today ) {act_now} {home} .",
    "The {pet}/ST does not eat/V the {food}/F because it/SI is/V not hungry/P .",
    "After work {Name}/S plays/V with the {pet}/T .",
    "{His} {relative}/S likes/V the {pet}/T too .",
    "At night the {pet}/ST sleeps/V {home} .",
)
TODAY_FILLER = (
    "{Name}/S works/V in a {shop} near the {place} .",
    "{His} {relative}/S ( a {job} ) lives/V in the city .",
    "The house/S has/V a {colour}/A door/N and a {big}/A garden/N .",
    "On {day} {he}/S walks/V to the {place} with {his} {relative} .",
    "{He}/S has/V a {colour}/A {thing}/NF and likes/V it/G .",
    "In the evening {he}/S cooks/V {food} and {food} .",
    "The bus/S is/V {colour}/P and full/P of people .",
)
TODAY_GAPS = (
    "In the evening {he}/S sits/V down with the {pet}/T .",
    "{Name}/S loves/V that {pet}/T very much .",
)

SLOTS: dict[str, tuple[str, ...]] = {
    "relative": ("mother", "father", "sister", "brother", "grandmother", "grandfather", "uncle"),
    "size": ("small", "big", "young", "old"),
    "big": ("big", "small", "old", "new", "beautiful"),
    "long": ("long", "short", "beautiful"),
    "warm": ("warm", "cold", "beautiful"),
    "windy": ("warm", "cold", "strong"),
    "river": ("cold", "quiet", "grey", "beautiful"),
    "feeling": ("happy", "sad", "tired", "quiet"),
    "place": ("park", "river", "forest", "market", "bridge", "station", "mountain"),
    "open": ("park", "forest", "market", "station"),
    "plant": ("carrots", "lettuce", "tomatoes", "apples"),
    "shop": ("bakery", "school", "library", "hospital", "bookshop"),
    "thing": ("bicycle", "umbrella", "hat", "coat", "chair", "lamp", "bag"),
    "colour": ("red", "blue", "green", "yellow", "white", "black", "brown"),
    "day": ("Monday", "Friday", "Saturday", "Sunday"),
    "skill": ("read", "write", "swim", "cook", "paint", "sing", "dance"),
    "job": ("doctor", "teacher", "baker", "painter", "farmer", "singer"),
    "food": ("apples", "bread", "carrots", "cheese", "fish", "lettuce", "meat", "nuts"),
}
PLURAL_FOODS = frozenset(("apples", "carrots", "nuts", "seeds", "worms"))
