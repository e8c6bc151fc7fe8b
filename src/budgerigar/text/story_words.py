"""Who the stories are about: names, pets and what each pet is like, in English and Chinese.

All pets take the measure word 只 and the article "a", so that neither gives the answer away.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Person:
    """A name in both languages, and whether the story says "she"."""

    english: str
    chinese: str
    female: bool


@dataclass(frozen=True, slots=True)
class Pet:
    """An animal. Looks, foods and homes are in the order of their Chinese counterparts.

    english_acts are pairs of present and past; chinese_looks are pairs of thing and quality.
    """

    english: str
    chinese: str
    looks: tuple[str, ...]
    foods: tuple[str, ...]
    homes: tuple[str, ...]
    acts: tuple[tuple[str, str], ...]
    chinese_looks: tuple[tuple[str, str], ...]
    chinese_foods: tuple[str, ...]
    chinese_homes: tuple[str, ...]
    chinese_acts: tuple[str, ...]


PEOPLE = tuple(
    Person(english, chinese, sex == "f")
    for english, chinese, sex in (
        line.split()
        for line in """
        Xuanyuan 轩辕 m
        Mei 小梅 f
        Wei 小伟 m
        Lan 小兰 f
        Ming 小明 m
        Fang 小芳 f
        Gang 小刚 m
        Tom 汤姆 m
        Anna 安娜 f
        Peter 彼得 m
        Mary 玛丽 f
        Emma 艾玛 f
        Leo 利奥 m
        Nora 诺拉 f
        Oscar 奥斯卡 m
        Rosa 罗莎 f
        Felix 菲利克斯 m
        Clara 克拉拉 f
        David 大卫 m
        Julia 朱莉娅 f
        Paul 保罗 m
        Kate 凯特 f
        Sam 山姆 m
        Ida 艾达 f
        """.strip().splitlines()
    )
)

_SING = (("sings/V", "sang/V"), ("flies/V", "flew/V"), ("hops/V", "hopped/V"))
_RUN = (("runs/V", "ran/V"), ("jumps/V", "jumped/V"), ("plays/V", "played/V"))
_CREEP = (("sleeps/V", "slept/V"), ("swims/V", "swam/V"), ("hides/V", "hid/V"))
_FLY = (("flies/V", "flew/V"), ("hops/V", "hopped/V"), ("plays/V", "played/V"))
_CRAWL = (("sleeps/V", "slept/V"), ("walks/V", "walked/V"), ("hides/V", "hid/V"))
_唱 = ("唱歌", "飞", "跳")
_跑 = ("跑", "跳", "玩")
_爬 = ("睡觉", "游泳", "躲")
_飞 = ("飞", "跳", "玩")
_走 = ("睡觉", "散步", "躲")

BUDGERIGAR = Pet(
    "budgerigar",
    "虎皮鹦鹉",
    ("green/A feathers/N", "blue/A feathers/N", "a yellow/A beak/N"),
    ("seeds", "apples"),
    ("in a cage by the window", "in the kitchen"),
    _SING,
    (("羽毛", "绿色"), ("羽毛", "蓝色"), ("嘴", "黄色")),
    ("种子", "苹果"),
    ("窗边 的 笼子 里", "厨房 里"),
    _唱,
)

PETS = (
    BUDGERIGAR,
    Pet(
        "canary",
        "金丝雀",
        ("yellow/A feathers/N", "orange/A feathers/N", "a short/A beak/N"),
        ("seeds", "lettuce"),
        ("in a cage by the window", "in the living room"),
        _SING,
        (("羽毛", "黄色"), ("羽毛", "橙色"), ("嘴", "白色")),
        ("种子", "生菜"),
        ("窗边 的 笼子 里", "客厅 里"),
        _唱,
    ),
    Pet(
        "pigeon",
        "鸽子",
        ("white/A feathers/N", "grey/A feathers/N", "strong/A wings/N"),
        ("seeds", "bread"),
        ("on the roof", "in the garden"),
        _FLY,
        (("羽毛", "白色"), ("羽毛", "灰色"), ("翅膀", "灰色")),
        ("种子", "面包"),
        ("屋顶 上", "花园 里"),
        _飞,
    ),
    Pet(
        "duck",
        "鸭子",
        ("white/A feathers/N", "brown/A feathers/N", "a yellow/A beak/N"),
        ("bread", "lettuce"),
        ("by the pond", "in the garden"),
        _CREEP,
        (("羽毛", "白色"), ("羽毛", "棕色"), ("嘴", "黄色")),
        ("面包", "生菜"),
        ("池塘 边", "花园 里"),
        _爬,
    ),
    Pet(
        "cat",
        "猫",
        ("grey/A fur/N", "black/A fur/N", "green/A eyes/N"),
        ("fish", "cheese"),
        ("on the sofa", "in the kitchen"),
        _RUN,
        (("毛", "灰色"), ("毛", "黑色"), ("眼睛", "绿色")),
        ("鱼", "奶酪"),
        ("沙发 上", "厨房 里"),
        _跑,
    ),
    Pet(
        "dog",
        "狗",
        ("brown/A fur/N", "black/A fur/N", "soft/A ears/N"),
        ("meat", "bread"),
        ("by the door", "in the garden"),
        _RUN,
        (("毛", "棕色"), ("毛", "黑色"), ("耳朵", "棕色")),
        ("肉", "面包"),
        ("门 边", "花园 里"),
        _跑,
    ),
    Pet(
        "rabbit",
        "兔子",
        ("white/A fur/N", "grey/A fur/N", "long/A ears/N"),
        ("carrots", "lettuce"),
        ("in the garden", "under the bed"),
        _RUN,
        (("毛", "白色"), ("毛", "灰色"), ("耳朵", "白色")),
        ("胡萝卜", "生菜"),
        ("花园 里", "床 下"),
        _跑,
    ),
    Pet(
        "hamster",
        "仓鼠",
        ("brown/A fur/N", "orange/A fur/N", "small/A ears/N"),
        ("nuts", "carrots"),
        ("in a box by the window", "in the living room"),
        _RUN,
        (("毛", "棕色"), ("毛", "橙色"), ("耳朵", "灰色")),
        ("坚果", "胡萝卜"),
        ("窗边 的 盒子 里", "客厅 里"),
        _跑,
    ),
    Pet(
        "mouse",
        "老鼠",
        ("white/A fur/N", "grey/A fur/N", "a long/A tail/N"),
        ("cheese", "nuts"),
        ("in a box by the window", "under the bed"),
        _RUN,
        (("毛", "白色"), ("毛", "灰色"), ("尾巴", "灰色")),
        ("奶酪", "坚果"),
        ("窗边 的 盒子 里", "床 下"),
        _跑,
    ),
    Pet(
        "squirrel",
        "松鼠",
        ("red/A fur/N", "brown/A fur/N", "a long/A tail/N"),
        ("nuts", "apples"),
        ("on the roof", "by the door"),
        _RUN,
        (("毛", "红色"), ("毛", "棕色"), ("尾巴", "棕色")),
        ("坚果", "苹果"),
        ("屋顶 上", "门 边"),
        _跑,
    ),
    Pet(
        "hedgehog",
        "刺猬",
        ("brown/A fur/N", "short/A legs/N", "small/A eyes/N"),
        ("apples", "cheese"),
        ("in the garden", "under the sofa"),
        _CRAWL,
        (("毛", "棕色"), ("腿", "棕色"), ("眼睛", "黑色")),
        ("苹果", "奶酪"),
        ("花园 里", "沙发 下"),
        _走,
    ),
    Pet(
        "tortoise",
        "乌龟",
        ("a green/A shell/N", "a brown/A shell/N", "short/A legs/N"),
        ("lettuce", "carrots"),
        ("by the pond", "under the sofa"),
        _CREEP,
        (("壳", "绿色"), ("壳", "棕色"), ("腿", "绿色")),
        ("生菜", "胡萝卜"),
        ("池塘 边", "沙发 下"),
        _爬,
    ),
    Pet(
        "frog",
        "青蛙",
        ("green/A skin/N", "brown/A skin/N", "long/A legs/N"),
        ("worms", "fish"),
        ("by the pond", "in a box by the window"),
        _CREEP,
        (("皮肤", "绿色"), ("皮肤", "棕色"), ("腿", "绿色")),
        ("虫子", "鱼"),
        ("池塘 边", "窗边 的 盒子 里"),
        _爬,
    ),
)

XUANYUAN = PEOPLE[0]


def holds_lesson(people: Collection[Person], pets: Collection[Pet]) -> bool:
    """The lesson's own combination, kept out of every split: Xuanyuan and the budgerigar."""
    return XUANYUAN in people and BUDGERIGAR in pets
